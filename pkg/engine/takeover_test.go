package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB086TakeOverSeesWhatTheWatchMissed: a standby whose pod watch hangs takes over from a leader that has bound a pod
// meanwhile. It charges the pod before it gives out a card, and gives out none while a page of the answer is missing.
func TestCaseB086TakeOverSeesWhatTheWatchMissed(t *testing.T) {
	b := newBench(t, clock.RealClock{})
	client := fake.NewClientset(kit.Node("n1", kit.N8s("n1")))
	bound := kit.Pod("ns", "late", kit.UID("late"), kit.GPUs(2), kit.OnNode("n1"))
	ended := kit.Pod("ns", "ended", kit.UID("ended"), kit.GPUs(2), kit.OnNode("n1"), func(p *v1.Pod) { p.Status.Phase = v1.PodFailed })
	var failing, asked, watched bool
	client.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if list, ok := action.(clienttesting.ListAction); !ok || !strings.Contains(list.GetListRestrictions().Fields.String(), "spec.nodeName!=") {
			watched = true
			return true, &v1.PodList{}, nil // what a hanging watch has
		}
		asked = true
		first := &v1.PodList{Items: []v1.Pod{*ended, *kit.Pod("ns", "waiting", kit.UID("w"), kit.GPUs(1))}}
		first.Continue = "the last page"
		page, ok := action.(clienttesting.ListActionImpl)
		switch {
		case !ok || page.ListOptions.Continue == "":
			return true, first, nil
		case failing || page.ListOptions.Continue != first.Continue:
			return true, nil, errors.New("etcdserver: request timed out")
		}
		return true, &v1.PodList{Items: []v1.Pod{*bound}}, nil
	})
	factory := informers.NewSharedInformerFactory(client, 0)
	handle := newHandle(b.ctx, t, client, frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithPodActivator(b.woken))
	e := New(Options{})
	if err := e.TakeOver(b.ctx, handle); !errors.Is(err, ErrNotSynced) || asked {
		t.Fatalf("TakeOver before Start: %v", err)
	}
	if err := e.Start(b.ctx, handle, defaultArgs()); err != nil {
		t.Fatal(err)
	}
	running, stop := context.WithCancel(b.ctx)
	t.Cleanup(func() {
		stop()
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		factory.Shutdown()
	})
	factory.StartWithContext(running)
	eventually(b.ctx, t, "handlers in sync", e.HasSynced)
	if !watched || e.ledger.Node("n1").Free.Len() != 8 {
		t.Fatalf("the watch has shown a bound pod: the test shows nothing")
	}
	failing = true
	if err := e.TakeOver(b.ctx, handle); !errors.Is(err, ErrNotSynced) {
		t.Errorf("TakeOver without an answer: %v", err)
	}
	failing = false
	if err := e.TakeOver(b.ctx, handle); err != nil {
		t.Fatal(err)
	}
	if got := e.ledger.Node("n1").Free.Len(); got != 6 {
		t.Errorf("%d cards are free, want 6", got)
	}
	for uid, want := range map[ledger.PodUID]bool{"late": true, "ended": false, "w": false} {
		if _, _, holds := e.ledger.Holding(uid); holds != want {
			t.Errorf("pod %s holds cards: %t, want %t", uid, holds, want)
		}
	}
	asked = false
	if err := e.TakeOver(b.ctx, handle); err != nil || asked {
		t.Errorf("a second TakeOver: %v, asked again: %t", err, asked)
	}
}
