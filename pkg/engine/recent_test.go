package engine

import (
	"context"
	"testing"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2/ktesting"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestWhatWasWrittenIsNotRead: the record that a pod is seen with is the one that Recent was given, and not one that was read anew:
// its strings are those of the choice. (Nobody knows the node, of which the ledger would take the names of the cards.)
func TestWhatWasWrittenIsNotRead(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	e := New(Options{})
	given := allocate.Choice{Cards: []allocate.CardShare{{UUID: "GPU-given", SliceMask: allocate.WholeCard, VRAMBytes: 1, ComputeMilli: allocate.MilliPerCard}}}
	written, read := kit.Pod("ns", "written", kit.UID("written"), kit.GPUs(1), kit.OnNode("n1")), kit.Pod("ns", "read", kit.UID("read"), kit.GPUs(1), kit.OnNode("n2"))
	for pod, recent := range map[*v1.Pod]*record.Recent{written: e.Recent(), read: nil} {
		annotations, err := record.Annotations(pod, pod.Spec.NodeName, given, record.Options{Recent: recent})
		if err != nil {
			t.Fatal(err)
		}
		pod.Annotations = annotations
	}
	client := fake.NewClientset(written, read)
	factory := informers.NewSharedInformerFactory(client, 0)
	if err := e.Start(ctx, newHandle(ctx, t, client, frameworkruntime.WithInformerFactory(factory)), defaultArgs()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
	factory.Start(ctx.Done())
	eventually(ctx, t, "handlers in sync", e.HasSynced)
	for uid, kept := range map[ledger.PodUID]bool{"written": true, "read": false} {
		h, _, held := e.Ledger().Holding(uid)
		if !held || len(h.Cards) != 1 || h.Cards[0].UUID != given.Cards[0].UUID {
			t.Fatalf("pod %s holds %+v", uid, h)
		}
		if same := unsafe.StringData(h.Cards[0].UUID) == unsafe.StringData(given.Cards[0].UUID); same != kept {
			t.Errorf("the record of pod %s is that of Recent: %t, want %t", uid, same, kept)
		}
	}
}
