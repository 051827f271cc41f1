package ledger

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStates: the same states as Nodes, each once; nodes that are not known are in neither.
func TestStates(t *testing.T) {
	l := New()
	for i := range 500 {
		l.SetNode(NodeName(fmt.Sprintf("n%03d", i)), nil)
	}
	if err := l.Adopt(Holding{UID: "u", Pod: "ns/p", Node: "elsewhere", UnknownCards: 1}); err != nil {
		t.Fatal(err)
	}
	l.RemoveNode("n007")
	want := map[NodeName]*NodeGPUAllocation{}
	for a := range l.Nodes() {
		want[a.Name] = a
	}
	got := map[NodeName]*NodeGPUAllocation{}
	for a := range l.States() {
		if got[a.Name] != nil {
			t.Errorf("node %s comes twice", a.Name)
		}
		got[a.Name] = a
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(x, y *NodeGPUAllocation) bool { return x == y })); d != "" || len(got) != 499 {
		t.Errorf("%d states (-want +got):\n%s", len(got), d)
	}
	for range l.States() {
		break // an end in between is no fault
	}
	names := l.NodeNames()
	if len(names) != 500 || names[0] != "elsewhere" || names[1] != "n000" {
		t.Errorf("%d names, the first are %v", len(names), names[:2])
	}
}
