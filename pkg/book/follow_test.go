package book

import (
	"errors"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// waitingGang is a gang of which two must run, that has been tried and lacks two cards, and the pod that holds them.
func waitingGang(t *testing.T, members int) (b *bench, pods []*v1.Pod, holder *v1.Pod) {
	t.Helper()
	b = newBench(t)
	b.node("n1", kit.N8s)
	holder = b.member("", "holder", kit.GPUs(4))
	b.create(holder)
	b.run()
	b.group("a", 2)
	pods = b.members("a", members, kit.GPUs(4))
	b.create(pods...)
	b.run()
	b.pass(followMost / 10) // it has rested, was tried anew for what was asked meanwhile, and rests no more
	b.wantFollowers(pods[1:]...)
	return b, pods, holder
}

// wantFollowers says which pods are kept out of the queue since their lead is tried for them.
func (b *bench) wantFollowers(pods ...*v1.Pod) {
	b.t.Helper()
	want := map[*v1.Pod]bool{}
	for _, pod := range pods {
		want[b.current(pod)] = true
		if !b.follows[pod.UID] || !b.Follows(b.current(pod)) {
			b.t.Errorf("%s does not follow", pod.Name)
		}
	}
	for _, o := range b.store.List() {
		if pod, ok := o.(*v1.Pod); ok && !want[pod] && b.Follows(pod) {
			b.t.Errorf("%s follows", pod.Name)
		}
	}
}

// kept holds that the book knows of everybody who is kept out of the queue, unless it is about to activate pods, and that none of
// them is a lead.
func (b *bench) kept() {
	b.t.Helper()
	if len(b.outbox.pods) > 0 || len(b.host.activated) > 0 {
		return
	}
	for _, o := range b.store.List() {
		pod, ok := o.(*v1.Pod)
		if !ok || !b.follows[pod.UID] || pod.Spec.NodeName != "" {
			continue
		}
		m := b.Book.members[ledger.PodUID(pod.UID)]
		if m == nil || m.group.state == nil || !m.group.state.Follows(m.uid()) {
			b.t.Errorf("pod %s is kept out of the queue and follows nobody", pod.Name)
			continue
		}
		if _, known := m.group.followers[m.uid()]; !known {
			b.t.Errorf("pod %s is kept out of the queue, and would stay there if it became the lead", pod.Name)
		}
	}
}

func TestFollowersAreBoundWithTheirLead(t *testing.T) {
	b, pods, holder := waitingGang(t, 2)
	b.remove(holder)
	b.cure()
	b.pass(followMost / 10)
	if bound := b.bound(pods...); bound != 2 {
		t.Errorf("%d of 2 are bound", bound)
	}
	b.wantFollowers()
	b.check()
}

// TestFollowersOutliveTheirLead: whoever becomes the lead stands for the gang from then on.
func TestFollowersOutliveTheirLead(t *testing.T) {
	b, pods, holder := waitingGang(t, 4)
	for i := range 2 {
		b.remove(pods[i])
		b.run()
		b.pass(followMost / 10)
		b.wantFollowers(pods[i+2:]...)
	}
	b.remove(holder)
	b.cure()
	b.pass(followMost / 10)
	if bound := b.bound(pods[2:]...); bound != 2 {
		t.Errorf("%d of the 2 that are left are bound", bound)
	}
	b.check()
}

// TestFollowingEnds: each of these has all members looked at by the queue, as if they had never followed.
func TestFollowingEnds(t *testing.T) {
	tests := map[string]struct {
		end func(b *bench, pods []*v1.Pod)
		// left are the members that follow again once the queue has come to rest.
		left int
		// bound are those that are bound by it.
		bound int
	}{
		"too few members are left": {end: func(b *bench, pods []*v1.Pod) { b.remove(pods[1], pods[2]) }},
		"the group is deleted": {end: func(b *bench, _ []*v1.Pod) {
			b.GroupGone(ns, "a", b.groups[GroupKey{ns, "a"}].facts.UID)
		}},
		"the group is another": {end: func(b *bench, _ []*v1.Pod) { b.group("a", 2) }, left: 2},
		"the group is no gang any more": {
			end: func(b *bench, _ []*v1.Pod) {
				b.group("a", 0, func(g *podgroup.Group) { g.UID = b.groups[GroupKey{ns, "a"}].facts.UID })
			}, bound: 1,
		},
		"one is enough": {
			end: func(b *bench, _ []*v1.Pod) {
				b.group("a", 1, func(g *podgroup.Group) { g.UID = b.groups[GroupKey{ns, "a"}].facts.UID })
				b.pass(followMost / 10)
			}, bound: 1,
		},
		"the lead leaves the group": {
			end:  func(b *bench, pods []*v1.Pod) { b.change(pods[0], func(p *v1.Pod) { p.Labels = nil }) },
			left: 1,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b, pods, _ := waitingGang(t, 3)
			tt.end(b, pods)
			b.run()
			follow := 0
			for _, pod := range pods {
				if b.stored(pod) && b.follows[pod.UID] {
					follow++
				}
			}
			if bound := b.bound(pods...); follow != tt.left || bound != tt.bound {
				t.Errorf("%d follow and %d are bound, want %d and %d", follow, bound, tt.left, tt.bound)
			}
			b.check()
		})
	}
}

// TestFollowingIsOfOnePodForSomeTime: a member that is changed is tried itself, and so is one that has followed for long.
func TestFollowingIsOfOnePodForSomeTime(t *testing.T) {
	b, pods, _ := waitingGang(t, 3)
	changed := pods[1].DeepCopy()
	changed.Generation++
	if b.Follows(changed) {
		t.Error("it follows though its specification was changed")
	}
	if !b.Follows(pods[2]) {
		t.Error("the other one does not follow any more")
	}
	if b.Follow(changed) {
		t.Error("it follows though the book does not know what was tried")
	}
	b.clock.Step(followMost)
	if b.Follows(pods[2]) {
		t.Errorf("it follows after %s", followMost)
	}
	if b.Follow(pods[0]) {
		t.Error("the lead follows")
	}
	if b.Follow(b.member("a", "stranger")) {
		t.Error("a pod follows that the book does not know")
	}
}

// mates is a gang of three with two members on nodes of their own, and the cluster's other node.
func mates(t *testing.T) *bench {
	t.Helper()
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.node("n2", kit.N1)
	b.node("n3", kit.N1)
	b.create(b.member("a", "a-0", kit.OnNode("n2")), b.member("a", "a-1", kit.OnNode("n3")))
	return b
}

// TestFollowersOfAPlanThatCameTooLate: a mate is lost while a follower is planned, so the plan is refused. Then the lead goes.
func TestFollowersOfAPlanThatCameTooLate(t *testing.T) {
	b := mates(t)
	b.group("a", 3)
	holder := b.member("", "holder", kit.GPUs(8))
	b.create(holder)
	b.run()
	lead, x, y := b.member("a", "a-2", kit.GPUs(8)), b.member("a", "a-3", kit.GPUs(4)), b.member("a", "a-4", kit.GPUs(4))
	b.create(lead, x, y)
	b.run()
	b.pass(followMost / 10)
	b.wantFollowers(x, y)

	b.remove(holder)
	half := b.member("", "half", kit.GPUs(4))
	b.create(half)
	b.run()
	b.placing = func(a *Admission) ([]Place, string) {
		b.placing = nil
		b.NodeGone("n3")
		return b.plan(a)
	}
	b.cure()
	b.pass(followMost / 10)
	if b.placing != nil {
		t.Fatal("nothing was planned: the test shows nothing")
	}
	b.check()

	b.remove(lead)
	b.pass(followMost / 5)
	b.remove(half)
	b.cure()
	b.pass(followMost / 5)
	if bound := b.bound(x, y); bound != 2 {
		t.Errorf("%d of 2 are bound", bound)
	}
	b.check()
}

// TestFollowersOfALeadWithoutCards: the gang never failed: it waits for the outcome of a follower's Binding. Who tells the book that
// cards came free reaches it all the same.
func TestFollowersOfALeadWithoutCards(t *testing.T) {
	b := mates(t)
	b.group("a", 2)
	b.run()
	b.host.bind = func(pod *v1.Pod) error {
		b.ledger.Suspect(ledger.PodUID(pod.UID))
		return errors.New("no answer")
	}
	x := b.member("a", "a-9", kit.GPUs(4)) // it goes alone
	b.create(x)
	b.run()
	b.host.bind = func(*v1.Pod) error { return nil }
	b.NodeGone("n3") // one more is needed
	lead := b.member("a", "a-2")
	b.create(lead)
	b.offer(x) // the backoff of its error is over
	b.run()
	b.pass(followMost / 10)
	b.wantFollowers(x)

	b.ledger.Refute(ledger.PodUID(x.UID))
	b.MayCureAll()
	b.pass(followMost / 5)
	if bound := b.bound(lead, x); bound == 0 {
		t.Error("nobody is bound")
	}
	b.check()
}
