package book

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestTerminatingPodsAreLeftToTheFramework: the framework rejects a waiting pod that is being deleted, from its own handler of
// the same event, and two rejections of one pod race in it. Here it never comes, as for a pod that began to wait too late.
func TestTerminatingPodsAreLeftToTheFramework(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("a", 3)
	pods := b.members("a", 3, kit.GPUs(1))
	b.create(pods...)
	b.step()
	b.activated()
	for range 2 { // two wait for the third
		b.next()
	}
	doomed, sibling := b.host.waiting[pods[0].UID], b.host.waiting[pods[1].UID]
	if doomed == nil || sibling == nil || doomed.decided || sibling.decided {
		t.Fatalf("the first two members do not wait: %+v, %+v", doomed, sibling)
	}
	b.change(pods[0], func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: b.clock.Now()} })
	b.step()
	if !sibling.decided || sibling.allowed {
		t.Error("a gang that lost a member is not rejected")
	}
	if doomed.decided {
		t.Error("the terminating member is rejected although the framework does that")
	}
	b.clock.Step(leftToFramework)
	b.step()
	if !doomed.decided || doomed.allowed {
		t.Error("the terminating member waits for ever")
	}
}
