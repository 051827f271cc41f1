package inventory

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	gib       = int64(1) << 30
	h100      = "NVIDIA H100 80GB HBM3"
	h100Label = "NVIDIA-H100-80GB-HBM3"
)

// strs is a short name for the annotations and labels of a test node.
type strs = map[string]string

// newNode builds a node named n1. status holds allocatable amounts; a key with a trailing "^" is a capacity.
func newNode(annotations, labels, status strs) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid", Annotations: annotations, Labels: labels}}
	for key, value := range status {
		name, capacity := strings.CutSuffix(key, "^")
		list := &n.Status.Allocatable
		if capacity {
			list = &n.Status.Capacity
		}
		if *list == nil {
			*list = v1.ResourceList{}
		}
		(*list)[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return n
}

// uuid names card i.
func uuid(i int) string { return fmt.Sprintf("GPU-%d", i) }

// n8s describes the fixture N8s: eight cards of 80 GiB, NVSwitch, four on each NUMA node.
func n8s() topology.Spec {
	spec := topology.Spec{NVSwitch: true}
	for i := range 8 {
		spec.Cards = append(spec.Cards, topology.Card{UUID: uuid(i), Product: h100, VRAMBytes: 80 * gib, NUMA: i / 4, Healthy: true})
	}
	return spec
}

// annotated builds a node with an annotation for spec.
func annotated(t testing.TB, spec topology.Spec, status strs) *v1.Node {
	t.Helper()
	value, err := v1alpha1.FormatTopology(spec)
	if err != nil {
		t.Fatal(err)
	}
	return newNode(strs{v1alpha1.TopologyAnnotation: value}, nil, status)
}

// draGPU builds a device of type "gpu" as NVIDIA's DRA driver publishes it.
func draGPU(minor int, edit ...func(*resourcev1.Device)) resourcev1.Device {
	d := resourcev1.Device{
		Name: fmt.Sprintf("gpu-%d", minor),
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"type": {StringValue: new("gpu")}, "uuid": {StringValue: new(uuid(minor))}, "productName": {StringValue: new(h100)},
			"resource.kubernetes.io/pciBusID": {StringValue: new(fmt.Sprintf("0000:%02x:00.0", 0x18+minor))},
			"resource.kubernetes.io/pcieRoot": {StringValue: new(fmt.Sprintf("pci0000:%02x", 0x10+minor))},
			"driverVersion":                   {VersionValue: new("580.65.6")},
		},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}},
	}
	for _, e := range edit {
		e(&d)
	}
	return d
}

// draMIG builds a device of type "mig": an instance on the card with this minor number.
func draMIG(minor int, profile string, start, size int, edit ...func(*resourcev1.Device)) resourcev1.Device {
	d := resourcev1.Device{
		Name: fmt.Sprintf("gpu-%d-mig-%s-19-%d", minor, strings.ReplaceAll(profile, ".", ""), start),
		Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{
			"type": {StringValue: new("mig")}, "uuid": {StringValue: new(fmt.Sprintf("MIG-%d-%d", minor, start))},
			"parentUUID": {StringValue: new(uuid(minor))}, "profile": {StringValue: &profile}, "productName": {StringValue: new(h100)},
		},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"memory": {Value: resource.MustParse("9856Mi")}},
	}
	for i := start; i < start+size; i++ {
		d.Capacity[resourcev1.QualifiedName(fmt.Sprintf("memorySlice%d", i))] = resourcev1.DeviceCapacity{Value: resource.MustParse("1")}
	}
	for _, e := range edit {
		e(&d)
	}
	return d
}

func taint(effect resourcev1.DeviceTaintEffect) func(*resourcev1.Device) {
	return func(d *resourcev1.Device) {
		d.Taints = append(d.Taints, resourcev1.DeviceTaint{Key: "gpu.nvidia.com/xid", Value: "79", Effect: effect})
	}
}

// draSlice builds one of count slices of pool "n1".
func draSlice(name string, generation, count int64, devices ...resourcev1.Device) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourcev1.ResourceSliceSpec{
			Driver: draDriver, NodeName: new("n1"), Devices: devices,
			Pool: resourcev1.ResourcePool{Name: "n1", Generation: generation, ResourceSliceCount: count},
		},
	}
}

// dra8 is the complete pool of a node with eight H100.
func dra8(edit ...func(*resourcev1.Device)) []*resourcev1.ResourceSlice {
	var devices []resourcev1.Device
	for i := range 8 {
		devices = append(devices, draGPU(i, edit...))
	}
	return []*resourcev1.ResourceSlice{draSlice("a", 1, 2, devices[:4]...), draSlice("b", 1, 2, devices[4:]...)}
}

// hamiJSON builds HAMi's register of n cards in the JSON form; edit may change an entry.
func hamiJSON(n int, edit func(i int, entry string) string) string {
	var entries []string
	for i := range n {
		e := fmt.Sprintf(`{"id":"GPU-%d","index":%d,"count":10,"devmem":81920,"devcore":100,"type":"NVIDIA-%s","numa":%d,"health":true,"mode":"hami-core"}`, i, i, h100, i/4)
		if edit != nil {
			e = edit(i, e)
		}
		entries = append(entries, e)
	}
	return "[" + strings.Join(entries, ",") + "]"
}

// gfdLabels are the labels of a node with n cards of 80 GiB.
func gfdLabels(product string, n int) strs {
	return strs{labelProduct: product, labelCount: fmt.Sprint(n), labelMemory: "81920"}
}

// dump writes a result so that a reader can check it: one line a card, the link matrix, the problems.
func dump(res Result) string {
	var b strings.Builder
	fmt.Fprintf(&b, "source %q, allocatable %d\n", res.Source, res.Allocatable)
	if res.Topology != nil {
		for i := range res.Topology.Len() {
			b.WriteString(dumpCard(i, res.Topology.Card(i)))
		}
		for i := range res.Topology.Len() {
			for j := range res.Topology.Len() {
				fmt.Fprintf(&b, "%5s", res.Topology.Link(i, j))
			}
			b.WriteByte('\n')
		}
	}
	for _, p := range res.Problems {
		fmt.Fprintf(&b, "problem %s\n", p)
	}
	return b.String()
}

func dumpCard(i int, c topology.Card) string {
	state := "healthy"
	if !c.Healthy {
		state = "closed"
	}
	line := fmt.Sprintf("card %d: uuid=%q product=%q MiB=%d numa=%d bus=%q root=%q %s", i, c.UUID, c.Product, c.VRAMBytes/mib, c.NUMA, c.BusID, c.PCIeRoot, state)
	if c.Fault != "" {
		line += fmt.Sprintf(" fault=%q", c.Fault)
	}
	if c.MIGEnabled {
		line += " mig="
		for _, m := range c.MIG {
			line += fmt.Sprintf("[%s %s %d+%d %d MiB]", m.Profile, m.UUID, m.Start, m.Size, m.VRAMBytes/mib)
		}
	}
	return line + "\n"
}

// usable returns the indices that can be given out, "{...}".
func usable(res Result) string {
	if res.Topology == nil {
		return "none"
	}
	return res.Topology.Usable().String()
}

// wantProblems checks that the problems are exactly those whose text contains each of want, in order.
func wantProblems(t *testing.T, got []Problem, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d: %v", len(got), len(want), got)
	}
	for i, p := range got {
		if !strings.Contains(p.String(), want[i]) {
			t.Errorf("problem %d is %q, want it to contain %q", i, p, want[i])
		}
	}
}

func resourceOf(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.DecimalSI) }
