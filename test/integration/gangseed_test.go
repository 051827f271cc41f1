package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// patientPlans keeps plans for as long as a test takes, so that nothing but what the test does ends them.
func patientPlans(args *config.CoschedulingArgs) {
	args.PlanTTL.Duration, args.PermitTimeout.Duration = time.Hour, config.MaxPermitTimeout
}

// TestSeed is the scenario that the product is for: a gang of eight, seven of whose members are reserved and wait, when the
// eighth cannot go on. All seven are rejected at once. That every card is free again is shown without a clock: while the
// big gang rests, for an hour that does not pass, a smaller one takes all cards there are.
func TestSeed(t *testing.T) {
	s := startStage(t, patientPlans)
	s.createNodes(t, nodes("n", 12, kit.N1)...)
	t.Run("the eighth fails Filter on every node", s.eighthFailsFilter)
	t.Run("the node of the eighth vanishes", s.eighthLosesItsNode)
	t.Run("the eighth is deleted", s.eighthIsDeleted)
	t.Run("the PodGroup is deleted", s.groupIsDeleted)
	t.Run("the bind of the eighth conflicts", s.eighthConflicts)
	s.check(t, s.r)
}

// eight creates the gang of eight.
func (s *stage) eight(t *testing.T, group string) []*v1.Pod {
	t.Helper()
	s.createGroup(t, group, 8)
	pods := members(group, 8, kit.GPUs(1))
	s.createPods(t, pods...)
	return pods
}

// othersTakeAll shows that none of the cards is held, nobody waits at Permit and nobody of the gang is bound: a gang that
// needs every card runs. Then it ends, and so does the rest of the big gang.
func (s *stage) othersTakeAll(t *testing.T, group string, cards int) {
	t.Helper()
	s.waitFree(t, cards)
	if n := s.door.waiting(group + "-"); n != 0 {
		t.Errorf("%d members still wait at Permit", n)
	}
	small := group + "small"
	s.createGroup(t, small, int32(cards))
	pods := members(small, cards, kit.GPUs(1))
	s.createPods(t, pods...)
	s.waitBound(t, names(pods)...)
	if n := s.boundOf(t, group); n != 0 {
		t.Errorf("%d members of the gang that was rejected are bound", n)
	}
	s.check(t, s.r)
	s.deletePods(t, names(pods)...)
	s.waitFree(t, cards)
}

// runsAfterItsRest ends the rest: the big gang runs whole.
func (s *stage) runsAfterItsRest(t *testing.T, pods []*v1.Pod) {
	t.Helper()
	s.rest(t, pods)
	s.check(t, s.r)
	s.deletePods(t, names(pods)...)
	s.waitFree(t, 12)
}

func (s *stage) eighthFailsFilter(t *testing.T) {
	var refusals atomic.Int32
	s.door.set(func(pod *v1.Pod, _ string) string {
		if !strings.HasPrefix(pod.Name, "filter-") || s.door.waiting("filter-") < 7 {
			return ""
		}
		refusals.Add(1)
		return "refused by the test"
	})
	pods := s.eight(t, "filter")
	s.waitReason(t, "filter", "refused by the test")
	if n := refusals.Load(); n != 4 {
		t.Errorf("the eighth was refused %d times, want once and on three other nodes", n)
	}
	s.door.set(nil)
	s.othersTakeAll(t, "filter", 12)
	s.clock.Step(time.Minute) // the four nodes are not excluded any more
	s.runsAfterItsRest(t, pods)
}

func (s *stage) eighthLosesItsNode(t *testing.T) {
	in, out := s.holdLast(t, "node", 8)
	pods := s.eight(t, "node")
	lost := <-in
	if n := s.door.waiting("node-"); n != 7 {
		t.Errorf("%d wait at Permit, want 7", n)
	}
	if free := s.r.freeCards(); free != 4 {
		t.Errorf("%d cards are free while the gang is planned, want 4", free)
	}
	s.deleteNode(t, lost)
	s.waitFree(t, 11) // although the eighth is still in its cycle
	close(out)
	s.door.set(nil)
	s.waitReason(t, "node", "node "+lost+" is gone")
	s.othersTakeAll(t, "node", 11)
	s.createNodes(t, kit.Node(lost, kit.N1(lost)))
	s.runsAfterItsRest(t, pods)
}

func (s *stage) eighthIsDeleted(t *testing.T) {
	in, out := s.holdLast(t, "gone", 8)
	pods := s.eight(t, "gone")
	<-in
	var last string
	for _, pod := range pods {
		if s.door.waiting(pod.Name) == 0 {
			last = pod.Name
		}
	}
	s.deletePods(t, last)
	s.waitFree(t, 12)
	close(out)
	s.door.set(nil)
	s.waitReason(t, "gone", "7 of 8 members exist")
	s.othersTakeAll(t, "gone", 12)
	again := kit.Pod(namespace, last, inGroup("gone"), kit.GPUs(1))
	s.createPods(t, again)
	s.runsAfterItsRest(t, pods)
}

func (s *stage) groupIsDeleted(t *testing.T) {
	in, out := s.holdLast(t, "group", 8)
	pods := s.eight(t, "group")
	<-in
	s.deleteGroup(t, "group")
	s.waitFree(t, 12)
	close(out)
	s.door.set(nil)
	s.othersTakeAll(t, "group", 12)
	s.createGroup(t, "group", 8) // the next gang of its name owes no rest
	s.waitBound(t, names(pods)...)
	s.deletePods(t, names(pods)...)
	s.waitFree(t, 12)
}

// eighthConflicts: the last member to be ready is bound first, alone. The API server refuses it, and no other member has
// been sent.
func (s *stage) eighthConflicts(t *testing.T) {
	s.binds.refuse("bind-", http.StatusConflict, 1)
	pods := s.eight(t, "bind")
	s.waitReason(t, "bind", "did not get through")
	if n := s.binds.answered(); n != 1 {
		t.Errorf("%d Bindings met the conflict, want 1", n)
	}
	s.othersTakeAll(t, "bind", 12)
	s.runsAfterItsRest(t, pods)
}

// TestGangsAtTwiceTheCapacity: a hundred gangs of three, each member half a node, on nodes for fifty of them and two members
// more. As many run whole as fit; none runs in part, and those that wait hold nothing.
func TestGangsAtTwiceTheCapacity(t *testing.T) {
	s := startStage(t, restless)
	const slots, size, gangs = 152, 3, 100
	s.createNodes(t, nodes("n", slots/2, kit.N8s)...)
	for i := range gangs {
		group := fmt.Sprintf("g%02d", i)
		s.createGroup(t, group, size)
		s.createPods(t, members(group, size, kit.GPUs(4))...)
	}
	whole := func(ctx context.Context) (whole, part int, waiting []string, err error) {
		for i := range gangs {
			group := fmt.Sprintf("g%02d", i)
			n, err := s.bound(ctx, group)
			switch {
			case err != nil:
				return 0, 0, nil, err
			case n == size:
				whole++
			case n > 0:
				part++
			default:
				waiting = append(waiting, group)
			}
		}
		return whole, part, waiting, nil
	}
	eventually(t, "fifty gangs run", func(ctx context.Context) (bool, error) {
		n, part, _, err := whole(ctx)
		return n == slots/size && part == 0, err
	})
	_, _, waiting, err := whole(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range waiting {
		s.waitReason(t, group, "of 3 pods can be placed")
	}
	for _, group := range waiting {
		if held := s.holds(group + "-"); len(held) > 0 {
			t.Errorf("group %s waits and holds %v", group, held)
		}
	}
	if n, part, _, err := whole(t.Context()); n != slots/size || part != 0 || err != nil {
		t.Errorf("%d gangs run, %d in part, error %v; want %d and none", n, part, err, slots/size)
	}
	if free, want := s.r.freeCards(), 8*slots/2-4*size*(slots/size); free != want {
		t.Errorf("%d cards are free, want the %d that no gang fits on", free, want)
	}
	s.check(t, s.r)
}

// TestPlanTimeToLive: the eighth member stays in its cycle. The plan is given back when its time is over, the cycle that comes
// to its end then takes nothing, and a member that waits at Permit is let go likewise when its PodGroup's timeout comes first.
func TestPlanTimeToLive(t *testing.T) {
	s := startStage(t, func(args *config.CoschedulingArgs) {
		args.PlanTTL.Duration, args.PermitTimeout.Duration = 10*time.Minute, config.MaxPermitTimeout
	})
	s.createNodes(t, nodes("n", 12, kit.N1)...)
	t.Run("plan TTL", func(t *testing.T) {
		in, out := s.holdLast(t, "ttl", 8)
		pods := s.eight(t, "ttl")
		<-in
		s.clock.Step(9 * time.Minute)
		if n := s.door.waiting("ttl-"); n != 7 || s.r.freeCards() != 4 {
			t.Errorf("%d wait and %d cards are free before the time is over, want 7 and 4", n, s.r.freeCards())
		}
		s.clock.Step(time.Minute)
		s.waitFree(t, 12)
		close(out)
		s.door.set(nil)
		s.waitReason(t, "ttl", "7 of 8 planned members are ready, and none came for 10m0s")
		s.othersTakeAll(t, "ttl", 12)
		s.runsAfterItsRest(t, pods)
	})
	t.Run("permit timeout", func(t *testing.T) {
		in, out := s.holdLast(t, "permit", 8)
		s.createGroup(t, "permit", 8, scheduleTimeout(300))
		pods := members("permit", 8, kit.GPUs(1))
		s.createPods(t, pods...)
		<-in
		s.clock.Step(5 * time.Minute)
		s.waitFree(t, 12)
		close(out)
		s.door.set(nil)
		s.waitReason(t, "permit", "not all members were bound within 5m0s")
		s.othersTakeAll(t, "permit", 12)
		s.runsAfterItsRest(t, pods)
	})
	s.check(t, s.r)
}
