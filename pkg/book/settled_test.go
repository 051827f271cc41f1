package book

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestChangedWishIsACure: what the user takes back from a PodGroup may be what kept its gang waiting, and no event of the
// cluster need follow.
func TestChangedWishIsACure(t *testing.T) {
	tests := map[string]func(*podgroup.Group){
		"minResources": func(g *podgroup.Group) { g.MinResources = nil },
		"fabric":       func(g *podgroup.Group) { g.Wish.Required = "" },
	}
	for name, relax := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.node("n1", kit.N8s)
			b.placing = func(a *Admission) ([]Place, string) {
				if a.MinResources != nil && a.Wish.Required != "" {
					return nil, "it asks for too much"
				}
				return b.plan(a)
			}
			g := b.group("a", 2, func(g *podgroup.Group) {
				g.MinResources = map[v1.ResourceName]int64{v1.ResourceCPU: 1}
				g.Wish.Required = "leaf"
			})
			pods := b.members("a", 2, kit.GPUs(4))
			b.create(pods...)
			b.pass(time.Minute)
			if n := b.bound(pods...); n != 0 {
				t.Fatalf("%d members are bound, want the gang to wait", n)
			}
			b.placing = nil
			relax(&g)
			b.GroupSeen(g)
			b.run()
			if n := b.bound(pods...); n != 2 {
				t.Errorf("%d of 2 members are bound after the wish was taken back", n)
			}
		})
	}
}

// TestTurnEndsWithoutAnybodyToPlan: nodes are not kept for members that are gone.
func TestTurnEndsWithoutAnybodyToPlan(t *testing.T) {
	b := newBench(t, func(s *Settings) { s.TurnAfter = 1 })
	b.node("n1", kit.N8s)
	b.group("a", 2)
	pods := b.members("a", 2, kit.GPUs(8))
	b.create(pods...)
	b.run()
	if b.Withheld() == nil {
		t.Fatal("the gang has no turn")
	}
	b.remove(pods...)
	b.step()
	if w := b.Withheld(); w != nil {
		t.Errorf("%d nodes are still kept for %s, which has no members", len(w.Nodes), w.Group)
	}
}

// TestEvictionsEndWithTheirPods: a replica that stands by evicts nobody, and keeps no pod for it that is gone.
func TestEvictionsEndWithTheirPods(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("a", 2, func(g *podgroup.Group) { g.Spec.OnLoss = gang.LossEvict })
	pods := b.members("a", 2, kit.GPUs(1))
	b.create(pods...)
	b.run()
	b.remove(pods[0])
	b.pass(time.Minute)
	if n := b.entries()["evictions"]; n != 1 {
		t.Fatalf("%d members are to be evicted, want 1", n)
	}
	b.remove(pods[1])
	b.pass(time.Minute)
	if n := b.entries()["evictions"]; n != 0 {
		t.Errorf("%d members are to be evicted that are gone", n)
	}
}

// BenchmarkStepBesideWaitingGangs is the loop's answer to one event of one gang while many others wait.
func BenchmarkStepBesideWaitingGangs(b *testing.B) {
	x := newBench(b)
	x.node("n1", kit.N8s)
	const gangs = 10000
	for i := range gangs {
		name := "g" + string(rune('a'+i%26)) + time.Duration(i).String()
		x.group(name, 1)
		x.create(x.member(name, name+"-0", kit.GPUs(1)))
		x.Book.PlanFailed(GroupKey{ns, name}, "no room")
	}
	x.step()
	key := GroupKey{ns, "ga0s"}
	b.ResetTimer()
	for b.Loop() {
		x.mu.Lock()
		x.changed(x.groups[key])
		x.mu.Unlock()
		x.step()
	}
}
