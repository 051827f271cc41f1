package book

import (
	"testing"
	"time"

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
