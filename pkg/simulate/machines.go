package simulate

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	gpuResource = v1.ResourceName("nvidia.com/gpu")
	migPrefix   = "nvidia.com/mig-"
	// ProductLabel is the label by which GPU Feature Discovery names a node's cards; pods select machines by it.
	ProductLabel = "nvidia.com/gpu.product"

	mib = int64(1) << 20
)

// Machine is a kind of GPU server.
type Machine struct {
	// Name begins the names of its nodes, Title says what it is.
	Name, Title string
	// Product is the cards' name as nvidia-smi spells it, Count their number.
	Product string
	Count   int
	// VRAMBytes is the memory of each card as nvidia-smi reports it.
	VRAMBytes int64
	// Change adapts the catalogue's shape; nil takes it as it is.
	Change func(*topology.Spec)
}

// The machines of the demo. Memory is memory.total of nvidia-smi.
var (
	HGXH100 = Machine{Name: "h100", Title: "HGX H100, every pair over NVSwitch", Product: "NVIDIA H100 80GB HBM3", Count: 8, VRAMBytes: 81559 * mib}
	DGX1    = Machine{Name: "v100", Title: "DGX-1 V100, hybrid cube mesh", Product: "Tesla V100-SXM2-16GB", Count: 8, VRAMBytes: 16160 * mib}
	L40S    = Machine{Name: "l40s", Title: "L40S, PCIe only, two cards a switch", Product: "NVIDIA L40S", Count: 8, VRAMBytes: 46068 * mib, Change: pairsBehindSwitches}
	MIGA100 = Machine{Name: "a100", Title: "HGX A100, two cards in MIG mode", Product: "NVIDIA A100-SXM4-80GB", Count: 8, VRAMBytes: 81920 * mib, Change: lastTwoInMIGMode}
)

// pairsBehindSwitches puts cards 0 and 1, 2 and 3, ... behind one PCIe switch each.
func pairsBehindSwitches(s *topology.Spec) {
	for i := range s.Cards {
		s.Cards[i].PCIeSwitch = "switch" + strconv.Itoa(i/2)
		if j := i ^ 1; j < len(s.Cards) {
			s.Links[i][j] = topology.Link{Type: topology.LinkPIX}
		}
	}
}

// lastTwoInMIGMode cuts the last two A100 into instances: 3g.40gb twice, and 3g.40gb, 2g.20gb and 1g.10gb twice. Memory
// and placement are those of NVIDIA's MIG user guide: 1g.10gb has one memory slice of eight, 2g two, 3g four.
func lastTwoInMIGMode(s *topology.Spec) {
	large := func(start int) topology.MIGInstance {
		return topology.MIGInstance{Profile: "3g.40gb", Start: start, Size: 4, VRAMBytes: 40192 * mib}
	}
	small := func(start int) topology.MIGInstance {
		return topology.MIGInstance{Profile: "1g.10gb", Start: start, Size: 1, VRAMBytes: 9728 * mib}
	}
	medium := topology.MIGInstance{Profile: "2g.20gb", Start: 2, Size: 2, VRAMBytes: 19968 * mib}
	n := len(s.Cards)
	s.Cards[n-2].MIGEnabled, s.Cards[n-1].MIGEnabled = true, true
	s.Cards[n-2].MIG = []topology.MIGInstance{large(0), large(4)}
	s.Cards[n-1].MIG = []topology.MIGInstance{small(0), small(1), medium, large(4)}
}

// Node is one simulated node: the object and what it means.
type Node struct {
	Machine  *Machine
	Object   *v1.Node
	Topology *topology.Node
}

// Node builds node number i of this kind of machine.
func (m *Machine) Node(i int) (Node, error) {
	name := m.Name + "-" + strconv.Itoa(i)
	spec, ok := topology.Lookup(m.Product, m.Count)
	if !ok {
		return Node{}, fmt.Errorf("node %s: the catalogue has no machine with %d x %s", name, m.Count, m.Product)
	}
	if m.Change != nil {
		m.Change(&spec)
	}
	for j := range spec.Cards {
		c := &spec.Cards[j]
		c.VRAMBytes = m.VRAMBytes
		c.UUID = uuid("GPU", name, j)
		for k := range c.MIG {
			c.MIG[k].UUID = uuid("MIG", name, j*8+c.MIG[k].Start)
		}
	}
	graph, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		return Node{}, fmt.Errorf("node %s: %w", name, err)
	}
	value, err := v1alpha1.FormatTopology(spec)
	if err != nil {
		return Node{}, fmt.Errorf("node %s: %w", name, err)
	}
	return Node{Machine: m, Topology: graph, Object: m.object(name, value, graph)}, nil
}

func (m *Machine) object(name, description string, graph *topology.Node) *v1.Node {
	resources := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("128"),
		v1.ResourceMemory: resource.MustParse("1Ti"),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	whole := graph.Usable() &^ graph.MIGCards()
	resources[gpuResource] = *resource.NewQuantity(int64(whole.Len()), resource.DecimalSI)
	for i := range graph.MIGCards().All() {
		for _, instance := range graph.Card(i).MIG {
			key := v1.ResourceName(migPrefix + instance.Profile)
			count := resources[key]
			count.Add(*resource.NewQuantity(1, resource.DecimalSI))
			resources[key] = count
		}
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				v1.LabelHostname: name,
				v1.LabelOSStable: "linux",
				ProductLabel:     m.label(),
			},
			Annotations: map[string]string{v1alpha1.TopologyAnnotation: description},
		},
		Status: v1.NodeStatus{
			Capacity: resources, Allocatable: resources.DeepCopy(),
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "Simulated"}},
		},
	}
}

// label is the product as GPU Feature Discovery spells it.
func (m *Machine) label() string { return strings.ReplaceAll(m.Product, " ", "-") }

// uuid makes up a stable identifier in NVIDIA's form.
func uuid(prefix, node string, i int) string {
	sum := sha256.Sum256([]byte(node + "/" + strconv.Itoa(i)))
	return fmt.Sprintf("%s-%x-%x-%x-%x-%x", prefix, sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
