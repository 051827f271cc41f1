package simulate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func node(t *testing.T, m *Machine, i int) Node {
	t.Helper()
	n, err := m.Node(i)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The scheduler must make of the Node object exactly the graph that the oracle uses.
func TestNodeObjectAndGraphAgree(t *testing.T) {
	for _, kind := range demoMachines() {
		n := node(t, kind.machine, 1)
		resolved := inventory.Resolve(n.Object, []*resourcev1.ResourceSlice{}, inventory.Options{})
		if resolved.Source != inventory.SourceAnnotation || len(resolved.Problems) != 0 {
			t.Errorf("%s: source %q, problems %v", n.Object.Name, resolved.Source, resolved.Problems)
			continue
		}
		got, want := resolved.Topology.Spec(), n.Topology.Spec()
		got.Source, want.Source = "", ""
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: graph of the annotation (-oracle's +inventory's):\n%s", n.Object.Name, diff)
		}
		if resolved.Topology.Shape().Fingerprint() != n.Topology.Shape().Fingerprint() {
			t.Errorf("%s: shapes differ", n.Object.Name)
		}
	}
}

func TestMachines(t *testing.T) {
	tests := map[string]struct {
		machine *Machine
		// wantPair is the bandwidth of cards 0 and 1, 0 and 2, 0 and 7 in GB/s.
		wantPair  [3]string
		wantWhole int64
	}{
		"h100": {&HGXH100, [3]string{"370.8 GB/s", "370.8 GB/s", "370.8 GB/s"}, 8},
		"v100": {&DGX1, [3]string{"20.0 GB/s", "20.0 GB/s", "7.0 GB/s"}, 8},
		"l40s": {&L40S, [3]string{"24.0 GB/s", "17.5 GB/s", "13.9 GB/s"}, 8},
		"a100": {&MIGA100, [3]string{"240.0 GB/s", "240.0 GB/s", "240.0 GB/s"}, 6},
	}
	for name, tc := range tests {
		n := node(t, tc.machine, 0)
		shape := n.Topology.Shape()
		for i, other := range []int{1, 2, 7} {
			if got := shape.Pair(0, other).String(); got != tc.wantPair[i] {
				t.Errorf("%s: cards 0 and %d: %s, want %s", name, other, got, tc.wantPair[i])
			}
		}
		if got := n.Object.Status.Allocatable["nvidia.com/gpu"]; got.Value() != tc.wantWhole {
			t.Errorf("%s: allocatable nvidia.com/gpu = %s, want %d", name, got.String(), tc.wantWhole)
		}
		if n.Object.Name != name+"-0" {
			t.Errorf("name = %q, want %q", n.Object.Name, name+"-0")
		}
	}
}

func TestMIGNode(t *testing.T) {
	n := node(t, &MIGA100, 0)
	if got, want := n.Topology.MIGCards(), topology.SetOf(6, 7); got != want {
		t.Errorf("cards in MIG mode = %v, want %v", got, want)
	}
	got := map[v1.ResourceName]int64{}
	for name, q := range n.Object.Status.Allocatable {
		if len(name) > len(migPrefix) && name[:len(migPrefix)] == migPrefix {
			got[name] = q.Value()
		}
	}
	want := map[v1.ResourceName]int64{"nvidia.com/mig-1g.10gb": 2, "nvidia.com/mig-2g.20gb": 1, "nvidia.com/mig-3g.40gb": 3}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("MIG resources (-want +got):\n%s", diff)
	}
}

func TestUUIDsDiffer(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range demoMachines() {
		for i := range kind.count {
			n := node(t, kind.machine, i)
			for card := range n.Topology.Len() {
				c := n.Topology.Card(card)
				ids := []string{c.UUID}
				for _, instance := range c.MIG {
					ids = append(ids, instance.UUID)
				}
				for _, id := range ids {
					if seen[id] {
						t.Errorf("UUID %s stands twice", id)
					}
					seen[id] = true
				}
			}
		}
	}
	const want = "GPU-aaaa9402-0ad0-bb80-e40d-61b4e5d4d9c2"
	if len(uuid("GPU", "n", 0)) != len(want) {
		t.Errorf("uuid = %s, want the form of %s", uuid("GPU", "n", 0), want)
	}
}

func TestUnknownMachine(t *testing.T) {
	m := Machine{Name: "x", Product: "NVIDIA H100 80GB HBM3", Count: 3}
	if _, err := m.Node(0); err == nil {
		t.Error("a machine that the catalogue does not know is built")
	}
}

func TestAnnotationIsReadable(t *testing.T) {
	n := node(t, &MIGA100, 2)
	if _, err := v1alpha1.ParseTopology(n.Object.Annotations[v1alpha1.TopologyAnnotation]); err != nil {
		t.Error(err)
	}
}
