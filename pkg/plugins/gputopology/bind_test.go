package gputopology

import (
	"testing"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestBindKeepsTheRecord: a pod that comes back with what Bind wrote is charged with the record that was written, and not with one
// that was read: its strings are those of the reservation.
func TestBindKeepsTheRecord(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	pod := kit.Pod("ns", "p", kit.UID("u1"), kit.GPUs(2))
	bound := pod.DeepCopy()
	f.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		binding := action.(clienttesting.CreateAction).GetObject().(*v1.Binding) //nolint:errcheck // nothing else is created
		bound.Spec.NodeName, bound.Annotations = binding.Target.Name, binding.Annotations
		return true, nil, nil
	})
	state, _ := f.cycle(t, pod)
	if status := f.Reserve(f.ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Fatalf("Reserve: %v", status)
	}
	if status := f.Bind(f.ctx, state, pod, "n1"); !status.IsSuccess() {
		t.Fatalf("Bind: %v", status)
	}
	reserved := Reservation(state).Choice.Cards[0].UUID
	for name, tt := range map[string]struct {
		recent *record.Recent
		kept   bool
	}{"the engine's": {f.engine.Recent(), true}, "none": {nil, false}} {
		h, held, fault := record.Charge(bound, tt.recent)
		if !held || fault != nil || len(h.Cards) != 2 || h.Cards[0].UUID != reserved {
			t.Fatalf("%s: the bound pod holds %+v, %v", name, h, fault)
		}
		if same := unsafe.StringData(h.Cards[0].UUID) == unsafe.StringData(reserved); same != tt.kept {
			t.Errorf("%s: the record is the one that was written: %t, want %t", name, same, tt.kept)
		}
	}
}
