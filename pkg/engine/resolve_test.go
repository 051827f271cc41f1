package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// start is when the outcome of the bind became unknown.
var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// unresolved returns an engine with a bind of unknown outcome and no loop.
func unresolved(t *testing.T) (*bench, *testingclock.FakeClock) {
	t.Helper()
	c := testingclock.NewFakeClock(start)
	b := newBench(t, c).observed(t)
	b.server.onPost, b.server.getErr = answer(errLost), errLost
	if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); !unknown(err) {
		t.Fatalf("Bind: %v, want ErrBindUnknown", err)
	}
	b.server.getErr, b.server.gets = nil, 0
	store := b.factory.Core().V1().Pods().Informer().GetStore()
	for _, pod := range []*v1.Pod{
		b.server.pod.DeepCopy(),
		kit.Pod("ns", "waiting", kit.UID("w"), kit.GPUs(8)),
		kit.Pod("ns", "without-gpus", kit.UID("c")),
		kit.Pod("ns", "bound", kit.UID("b"), kit.GPUs(1), kit.OnNode("n9")),
	} {
		if err := store.Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	return b, c
}

func TestResolve(t *testing.T) {
	tests := map[string]struct {
		// change is what happens before the pod is read.
		change func(*bench)
		age    time.Duration
		// wantNode is empty if the pod holds nothing any more.
		wantNode  ledger.NodeName
		wantStage ledger.Stage
		// wantOpen says that the pod will be read again; else every GPU pod that waits is woken.
		wantOpen bool
		wantGets int
	}{
		"ours": {
			change: func(b *bench) { b.server.commit(b.binding) }, age: time.Second,
			wantNode: "n1", wantStage: ledger.StageBound, wantGets: 1,
		},
		"gone": {
			change: func(b *bench) { b.server.pod = nil }, age: time.Second, wantGets: 1,
		},
		"another pod of the same name": {
			change: func(b *bench) { b.server.pod.UID = "u2" }, age: time.Second, wantGets: 1,
		},
		"ended": {
			change: func(b *bench) { b.server.commit(b.binding); b.server.pod.Status.Phase = v1.PodFailed }, age: time.Second, wantGets: 1,
		},
		"not bound, a late commit is possible": {
			age: lateCommit - time.Nanosecond, wantNode: "n1", wantStage: ledger.StageUnknown, wantOpen: true, wantGets: 1,
		},
		"not bound, no late commit is possible": {
			age: lateCommit, wantGets: 1,
		},
		"unreadable, however long": {
			change: func(b *bench) { b.server.getErr = errors.New("no route to host") }, age: time.Hour,
			wantNode: "n1", wantStage: ledger.StageUnknown, wantOpen: true, wantGets: 1,
		},
		"bound elsewhere by somebody else": {
			change: func(b *bench) { b.server.pod.Spec.NodeName = "n2" }, age: time.Second,
			wantNode: "n2", wantStage: ledger.StageBound, wantGets: 1,
		},
		"an event was faster": {
			change: func(b *bench) { b.ledger.Confirm(podUID) }, age: time.Hour,
			wantNode: "n1", wantStage: ledger.StageBound,
		},
		"an event released it": {
			change: func(b *bench) { b.ledger.Release(podUID) }, age: time.Second,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b, c := unresolved(t)
			if tt.change != nil {
				tt.change(b)
			}
			c.Step(tt.age)
			b.resolve(b.ctx, b.handle)
			if len(b.wakes) > 0 {
				b.wake(b.ctx, b.handle)
			}
			held, stage, _ := b.ledger.Holding(podUID)
			if held.Node != tt.wantNode || stage != tt.wantStage {
				t.Errorf("holds cards of node %q in stage %v, want %q and %v", held.Node, stage, tt.wantNode, tt.wantStage)
			}
			wantFree := 8
			if tt.wantNode == "n1" {
				wantFree = 7
			}
			if got := b.ledger.Node("n1").Free.Len(); got != wantFree {
				t.Errorf("%d cards of n1 are free, want %d", got, wantFree)
			}
			if open := len(b.openSuspects()) == 1; open != tt.wantOpen {
				t.Errorf("still open: %t, want %t", open, tt.wantOpen)
			}
			var wantWoken []string
			if !tt.wantOpen {
				wantWoken = []string{"ns/p", "ns/waiting"}
			}
			if d := cmp.Diff(wantWoken, b.woken.names()); d != "" {
				t.Errorf("woken (-want +got):\n%s", d)
			}
			if b.server.gets != tt.wantGets {
				t.Errorf("the pod was read %d times, want %d", b.server.gets, tt.wantGets)
			}
		})
	}
}

// TestResolvedPodMayBePlacedAgain: what was refuted is no tombstone.
func TestResolvedPodMayBePlacedAgain(t *testing.T) {
	b, c := unresolved(t)
	c.Step(lateCommit)
	b.resolve(b.ctx, b.handle)
	if err := b.ledger.Assume(b.holding); err != nil {
		t.Errorf("Assume after the bind was refuted: %v", err)
	}
	b.server.pod = nil
	if !b.ledger.Suspect(podUID) {
		t.Fatal("no holding to suspect")
	}
	b.suspect(b.binding)
	b.resolve(b.ctx, b.handle)
	if err := b.ledger.Assume(b.holding); !errors.Is(err, ledger.ErrReleased) {
		t.Errorf("Assume after the pod was found gone: %v, want ErrReleased", err)
	}
}

// TestResolveLoop: the loop that Start runs reads suspects on every tick of the clock.
func TestResolveLoop(t *testing.T) {
	c := testingclock.NewFakeClock(start)
	b := newBench(t, c)
	b.server.onPost, b.server.getErr = answer(errLost), errLost
	if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); !unknown(err) {
		t.Fatalf("Bind: %v, want ErrBindUnknown", err)
	}
	b.server.getErr = nil
	b.server.commit(b.binding)
	if err := b.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Fatal(err)
	}
	if got := b.stage(); got != ledger.StageUnknown {
		t.Errorf("%v before the first tick, want %v", got, ledger.StageUnknown)
	}
	eventually(b.ctx, t, "resolved", func() bool {
		c.Step(resolvePeriod) // again, until the loop has its ticker
		return b.stage() == ledger.StageBound && len(b.openSuspects()) == 0
	})
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
