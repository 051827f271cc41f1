package book

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCureWhileTheLeadStandsInTheQueue: the scheduler's queue asks MayCure only of pods that it has put aside. What cures a
// gang while its lead is about to be tried, and while the gang rests, is not forgotten.
func TestCureWhileTheLeadStandsInTheQueue(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	other := b.member("", "other", kit.GPUs(4))
	b.create(other)
	b.run()
	b.group("a", 2)
	pods := b.members("a", 2, kit.GPUs(4))
	b.create(pods...)
	b.run()
	if at := b.groups[GroupKey{ns, "a"}].state.RetryAt(); !at.After(b.clock.Now()) {
		t.Fatal("the gang does not rest: the test shows nothing")
	}
	b.offer(pods[0]) // an activation that was decided before the plan failed comes late
	b.remove(other)  // and nobody is asked whether this may help
	b.run()
	if bound := b.bound(pods...); bound != 0 {
		t.Fatalf("%d are bound while the gang rests", bound)
	}
	b.pass(11 * time.Second)
	if bound := b.bound(pods...); bound != 2 {
		t.Errorf("%d of 2 are bound after the gang has rested", bound)
	}
	b.check()
}

// newRivals has two gangs wait for a node of which another pod has half: low came first, high is of higher priority.
func newRivals(t *testing.T) (b *bench, other *v1.Pod, low, high []*v1.Pod) {
	t.Helper()
	b = newBench(t)
	b.node("n1", kit.N8s)
	other = b.member("", "other", kit.GPUs(4))
	b.create(other)
	b.run()
	b.group("low", 2)
	b.group("high", 2)
	low, high = b.members("low", 2, kit.GPUs(4)), b.members("high", 2, kit.GPUs(4), kit.Priority(1000))
	b.create(low...)
	b.create(high...)
	b.run()
	b.pass(time.Minute)
	return b, other, low, high
}

// TestCuredGangsAreTriedByPriority: one event may help two gangs, and the queue asks for the one of lower priority first. The
// loop, which runs in between, does not let it get ahead.
func TestCuredGangsAreTriedByPriority(t *testing.T) {
	b, other, low, high := newRivals(t)
	b.remove(other)
	for _, pod := range []*v1.Pod{low[0], high[0]} {
		if b.MayCure(pod) {
			t.Errorf("the queue is to wake %s by itself", pod.Name)
		}
		b.run()
	}
	b.pass(curePeriod)
	if bound := b.bound(high...); bound != 2 {
		t.Errorf("%d of the two of high priority are bound, %d of the others", bound, b.bound(low...))
	}
	b.check()
}

// TestCaseB013RestLetsNobodyPass: the low gang was there first and has rested when cards come free, the high one failed a
// moment ago and rests. The high one gets them, and the low one those that come free when it ends.
func TestCaseB013RestLetsNobodyPass(t *testing.T) {
	for _, late := range []time.Duration{0, 8 * time.Second} { // the low gang has rested, or rests as well and is ready first
		b := newBench(t)
		b.node("n1", kit.N8s)
		other := b.member("", "other", kit.GPUs(4))
		b.create(other)
		b.run()
		b.group("low", 2)
		low := b.members("low", 2, kit.GPUs(4))
		b.create(low...)
		b.run()
		b.pass(11*time.Second - late)
		b.group("high", 2)
		high := b.members("high", 2, kit.GPUs(4), kit.Priority(1000))
		b.create(high...)
		b.run()
		b.pass(2 * time.Second)
		b.remove(other)
		b.cure()
		b.pass(45 * time.Second)
		if bound := b.bound(high...); bound != 2 {
			t.Errorf("low rests until %s after high came: %d of the high gang are bound, %d of the low one", late, bound, b.bound(low...))
		}
		b.remove(high...)
		b.cure()
		b.pass(45 * time.Second)
		if bound := b.bound(low...); bound != 2 {
			t.Errorf("%d of the low gang are bound after the high one has ended", bound)
		}
		b.check()
	}
}

// TestCaseB013ActiveLetsNobodyPass: the low gang stands in the active queue already when cards come free, and the high one has
// been told, or will be, when the low one's cycle begins. The high one gets them all the same.
func TestCaseB013ActiveLetsNobodyPass(t *testing.T) {
	for name, cure := range map[string]func(b *bench, high *v1.Pod){
		"by the queue's hint":         func(b *bench, high *v1.Pod) { b.MayCure(high) },
		"by what it does not hear of": func(b *bench, _ *v1.Pod) { b.MayCureAll() },
	} {
		t.Run(name, func(t *testing.T) {
			b, other, low, high := newRivals(t)
			b.remove(other)
			cure(b, high[0])
			b.offer(low[1]) // both members were activated for something else
			b.offer(low[0])
			b.run()
			if bound := b.bound(low...); bound != 0 {
				t.Errorf("%d of the low gang are bound before the high one is tried", bound)
			}
			b.pass(curePeriod)
			if bound := b.bound(high...); bound != 2 {
				t.Errorf("%d of the two of high priority are bound, %d of the others", bound, b.bound(low...))
			}
			b.remove(high...)
			b.cure()
			b.pass(11 * time.Second) // it failed when it was tried after the high one, and rests
			if bound := b.bound(low...); bound != 2 {
				t.Errorf("%d of the low gang are bound once the high one has ended", bound)
			}
			b.check()
		})
	}
}

// TestYieldingEnds: a gang of high priority lacks more than ever comes free, and something that may help it happens all the time.
// A gang of low priority that fits lets it go first only once.
func TestYieldingEnds(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("high", 3)
	high := b.members("high", 3, kit.GPUs(4), kit.Priority(1000))
	b.create(high...)
	b.run()
	b.pass(time.Minute)
	b.group("low", 2)
	low := b.members("low", 2, kit.GPUs(4))
	b.MayCure(high[0])
	b.create(low...)
	b.run()
	if bound := b.bound(low...); bound != 0 {
		t.Errorf("%d of the low gang are bound before the high one is tried", bound)
	}
	b.clock.Step(curePeriod)
	b.step()
	b.MayCure(high[0]) // it is noted again before anybody is tried
	b.run()
	if bound := b.bound(low...); bound != 2 {
		t.Errorf("%d of the low gang are bound", bound)
	}
	b.check()
}
