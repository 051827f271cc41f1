package coscheduling

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestMemberOfAGangThatDoesNotFitFollows: a member that was tried in vain follows the first of its gang, and goes through PreEnqueue
// for it, where the profile has the gate that keeps it there. The first does not, and where there is no gate nobody does.
func TestMemberOfAGangThatDoesNotFitFollows(t *testing.T) {
	tests := map[string]struct {
		gated   bool
		member  int
		follows bool
	}{
		"the first":                   {true, 0, false},
		"another":                     {true, 1, true},
		"another, without the gate":   {false, 1, false},
		"the last":                    {true, 2, true},
		"the first, without the gate": {false, 0, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods := members("a", 3, kit.GPUs(4))
			f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1"))}, pods)...)
			f.gated = func() bool { return tt.gated }
			f.seesGroup("a", 3)
			pod := pods[tt.member]
			state, _, status := f.prefilter(t, pod)
			if status.IsSuccess() {
				t.Fatal("12 GPUs fit on 8")
			}
			before := f.activated.of(pod)
			if _, status := f.PostFilter(f.ctx, state, pod, nil); status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("PostFilter: %v, want UnschedulableAndUnresolvable, so that preemption ends", status)
			}
			if got := f.book.Follows(pod); got != tt.follows {
				t.Errorf("the member follows: %v, want %v", got, tt.follows)
			}
			if got := f.activated.of(pod) - before; got > 0 != tt.follows {
				t.Errorf("the member was activated %d times", got)
			}
		})
	}
}
