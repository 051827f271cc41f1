package book

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// first holds that the foremost gang is what looking through all that are told next says.
func (b *bench) first() {
	b.t.Helper()
	var want *group
	for g := range b.cured {
		if g.ready() && (want == nil || g.priority() > want.priority()) {
			want = g
		}
	}
	switch got := b.foremost; {
	case (got == nil) != (want == nil):
		b.t.Errorf("there is a foremost gang: %v, want %v", got != nil, want != nil)
	case got != nil && (!b.cured[got] || !got.ready() || got.priority() != want.priority()):
		b.t.Errorf("the foremost gang is %s, want %s", got.key, want.key)
	}
}

// withdraw deletes a PodGroup.
func (b *bench) withdraw(group string) {
	b.GroupGone(ns, group, b.groups[GroupKey{ns, group}].facts.UID)
}

// TestWhoIsYieldedTo: cards come free that two gangs want, the one of low priority stands in the active queue, and that of high
// priority, which was noted, is in some state.
func TestWhoIsYieldedTo(t *testing.T) {
	nothing := func(*bench, []*v1.Pod) {}
	for name, tt := range map[string]struct {
		// before and after are what happens to the gang of high priority before and after it is noted.
		before, after func(b *bench, high []*v1.Pod)
		yields        bool
	}{
		"could be planned":  {nothing, nothing, true},
		"rests":             {func(b *bench, high []*v1.Pod) { b.cycle(high[0]) }, nothing, true},
		"has lost a member": {func(b *bench, high []*v1.Pod) { b.remove(high[1]) }, nothing, false},
		"loses a member":    {nothing, func(b *bench, high []*v1.Pod) { b.remove(high[1]) }, false},
		"loses its lead":    {nothing, func(b *bench, high []*v1.Pod) { b.remove(high[0]) }, false},
		"loses all members": {nothing, func(b *bench, high []*v1.Pod) { b.remove(high...) }, false},
		"loses its group":   {nothing, func(b *bench, _ []*v1.Pod) { b.withdraw("high") }, false},
		"is deleted":        {nothing, func(b *bench, high []*v1.Pod) { b.remove(high...); b.withdraw("high") }, false},
		"is a gang no more": {nothing, func(b *bench, _ []*v1.Pod) { b.group("high", 0) }, false},
		"was told":          {nothing, func(b *bench, _ []*v1.Pod) { b.clock.Step(curePeriod); b.step() }, false},
		"gets a member back": {func(b *bench, high []*v1.Pod) { b.remove(high[1]) }, func(b *bench, _ []*v1.Pod) {
			b.create(b.member("high", "another", kit.GPUs(4), kit.Priority(1000)))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			b, other, low, high := newRivals(t)
			tt.before(b, high)
			b.remove(other)
			b.MayCure(high[0])
			tt.after(b, high)
			b.MayCure(low[0])
			b.first()
			if what := b.cycle(low[0]); (what == "wait") != tt.yields {
				t.Errorf("what comes of the gang of low priority is %q", what)
			}
			b.check()
		})
	}
}

// TestTheNextOneIsYieldedTo: the foremost of those that were noted is deleted, and there is another one of higher priority.
func TestTheNextOneIsYieldedTo(t *testing.T) {
	b, other, low, high := newRivals(t)
	b.group("middle", 2)
	middle := b.members("middle", 2, kit.GPUs(4), kit.Priority(500))
	b.create(middle...)
	b.run()
	b.remove(other)
	for _, pods := range [][]*v1.Pod{low, high, middle} {
		b.MayCure(pods[0])
	}
	b.remove(high...)
	b.withdraw("high")
	if what := b.cycle(low[0]); what != "wait" {
		t.Errorf("what comes of the gang of low priority is %q", what)
	}
	b.pass(curePeriod)
	if bound := b.bound(middle...); bound != 2 {
		t.Errorf("%d of the next one are bound, %d of that of low priority", bound, b.bound(low...))
	}
	b.check()
}

// TestYieldsAsTheLeadSays: where the foremost gang goes on with a lead of lower priority, the next one is yielded to.
func TestYieldsAsTheLeadSays(t *testing.T) {
	b, other, low, high := newRivals(t)
	b.group("mixed", 2)
	lead := b.member("mixed", "mixed-lead", kit.GPUs(4), kit.Priority(5000))
	rest := b.members("mixed", 3, kit.GPUs(4))[1:]
	b.create(lead)
	b.create(rest...)
	b.run()
	b.remove(other)
	for _, pod := range []*v1.Pod{lead, high[0], low[0]} {
		b.MayCure(pod)
	}
	b.remove(lead)
	b.first()
	if what := b.cycle(low[0]); what != "wait" {
		t.Errorf("what comes of the gang of low priority is %q", what)
	}
}

// TestWhoHoldsCardsDoesNotYield: a member of a planned gang was refused by its node. What the others hold serves nobody until it has
// another place.
func TestWhoHoldsCardsDoesNotYield(t *testing.T) {
	b, other, low, high := newRivals(t)
	b.remove(other)
	b.node("n2", kit.N8s)
	b.refuse = func(pod *v1.Pod, node string) string {
		if pod.Name == low[1].Name && node == "n1" {
			return "no"
		}
		return ""
	}
	if first, second := b.cycle(low[0]), b.cycle(low[1]); first != "waits" || second != "refused" {
		t.Fatalf("the members' cycles ended with %q and %q", first, second)
	}
	b.MayCure(high[0])
	b.first()
	if what := b.cycle(low[1]); what != "bound" {
		t.Errorf("what comes of the member that was refused is %q", what)
	}
	b.run()
	if bound := b.bound(low...); bound != 2 {
		t.Errorf("%d of 2 are bound", bound)
	}
	b.check()
}

// TestNothingToPlanNothingToYield: members that go alone do so while a gang of higher priority is noted, and those of a gang that
// cannot be planned hear what it lacks.
func TestNothingToPlanNothingToYield(t *testing.T) {
	b, other, low, high := newRivals(t)
	b.node("n2", kit.N8s)
	b.group("runs", 1)
	runs := b.members("runs", 2, kit.GPUs(1))
	b.create(runs[0])
	b.run()
	b.remove(other, low[1])
	b.MayCure(high[0])
	b.first()
	b.create(runs[1])
	if what := b.cycle(runs[1]); what != "bound" {
		t.Errorf("what comes of the member that goes alone is %q", what)
	}
	a := b.Admit(low[0])
	if a.Kind != gang.VerdictWait || !strings.Contains(a.Reason, "1 of 2 members exist") {
		t.Errorf("the gang that lacks a member is told %s: %s", a.Kind, a.Reason)
	}
	b.check()
}
