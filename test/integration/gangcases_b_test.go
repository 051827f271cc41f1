package integration

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB017RoomComesAtAnyMoment: room for the second member comes at some moment of the first one's cycle, or never.
// Both are bound or both wait. 500 runs in a world of its own are the test of the same name in pkg/book.
func TestCaseB017RoomComesAtAnyMoment(t *testing.T) {
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 2, kit.N1)...)
	random := rand.New(rand.NewPCG(17, 2))
	for run := range 20 {
		group, x := fmt.Sprintf("a%d", run), fmt.Sprintf("x%d", run)
		leaves := run%2 == 0
		s.createPods(t, kit.Pod(namespace, x, kit.GPUs(1)))
		s.waitBound(t, x)
		s.createGroup(t, group, 2)
		pods := members(group, 2, kit.GPUs(1))
		moment := random.IntN(3)
		for i := range 3 {
			if leaves && i == moment {
				for range random.IntN(5) {
					s.pod(t, x) // some time passes
				}
				s.deletePods(t, x)
			}
			if i < 2 {
				s.createPods(t, pods[i])
			}
		}
		if leaves {
			s.waitBound(t, names(pods)...)
		} else {
			s.waitReason(t, group, "1 of 2 pods can be placed")
			s.waitSays(t, "1 of 2 pods can be placed", names(pods)...)
			if n := s.boundOf(t, group); n != 0 {
				t.Fatalf("run %d: %d members are bound where one fits", run, n)
			}
		}
		s.deletePods(t, append(names(pods), x)...)
		s.waitFree(t, 2)
	}
	s.check(t, s.r)
}

// TestCaseB019OwnMembersCountTowardsMinResources: what the gang has already is not held against it: neither when it starts,
// nor when one of its members is replaced. A group of the same name in another namespace is another group.
func TestCaseB019OwnMembersCountTowardsMinResources(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createNamespace(t, "other")
	s.createGroup(t, "a", 8, minResources(8))
	pods := members("a", 8, kit.GPUs(1))
	elsewhere := members("a", 4, kit.GPUs(1))
	for _, pod := range elsewhere {
		pod.Namespace = "other"
	}
	s.createPods(t, pods[:4]...)
	s.createPods(t, elsewhere...)
	s.waitReason(t, "a", "4 of 8 members exist")
	s.createPods(t, pods[4:]...)
	s.waitGroupBound(t, "a", 8)
	s.check(t, s.r)

	s.deletePods(t, "a-3")
	s.createPods(t, kit.Pod(namespace, "a-8", inGroup("a"), kit.GPUs(1)))
	s.waitGroupBound(t, "a", 8)
	s.check(t, s.r)
	list, err := s.client.CoreV1().Pods("other").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if node := list.Items[i].Spec.NodeName; node != "" {
			t.Errorf("pod %s of the group without PodGroup is bound", list.Items[i].Name)
		}
	}

	s.createNodes(t, nodes("m", 1, kit.N8s)...)
	s.createGroup(t, "greedy", 2, minResources(9))
	s.createPods(t, members("greedy", 2, kit.GPUs(1))...)
	s.waitReason(t, "greedy", "minResources asks for 9 of nvidia.com/gpu, 8 are free for it or its own")
	if held := s.holds("greedy"); len(held) > 0 {
		t.Errorf("a gang whose minResources are not there holds %v", held)
	}
}

// TestCaseB020EndComesInSeveralEvents: a member succeeds and is deleted, and one that never reserved is deleted too. The
// figures stay those of the set of members, also for a scheduler that starts anew.
func TestCaseB020EndComesInSeveralEvents(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createGroup(t, "a", 3)
	pods := members("a", 3, kit.GPUs(1))
	s.createPods(t, pods...)
	s.waitBound(t, names(pods)...)
	s.setPhases(t, pods, v1.PodRunning, v1.PodRunning, v1.PodRunning)
	s.waitStatus(t, "a", groupStatus{"Running", 3, 0, 0})
	s.finish(t, "a-0", v1.PodSucceeded)
	s.waitStatus(t, "a", groupStatus{"Running", 2, 1, 0})
	s.deletePods(t, "a-0")
	s.createPods(t, kit.Pod(namespace, "never", inGroup("a"), kit.GPUs(8)))
	s.waitRefused(t, "never")
	s.deletePods(t, "never")
	s.restart(t)
	s.setPhases(t, pods[1:], v1.PodSucceeded)
	s.waitStatus(t, "a", groupStatus{"Running", 1, 2, 0})
	s.check(t, s.r)
}

// TestCaseB022FifthCompletion: four at a time, five in all. Members that succeeded count for the fifth, while their objects
// are there, when they are deleted, and for a scheduler that never saw them.
func TestCaseB022FifthCompletion(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createGroup(t, "a", 4)
	pods := members("a", 7, kit.GPUs(1))
	s.createPods(t, pods[:4]...)
	s.waitBound(t, names(pods[:4])...)
	for _, pod := range pods[:4] {
		s.finish(t, pod.Name, v1.PodSucceeded)
	}
	s.waitStatus(t, "a", groupStatus{"Finished", 0, 4, 0})
	s.createPods(t, pods[4])
	s.waitBound(t, "a-4")
	s.deletePods(t, names(pods[:4])...)
	s.createPods(t, pods[5])
	s.waitBound(t, "a-5")
	s.check(t, s.r)
	s.finish(t, "a-4", v1.PodSucceeded)
	s.finish(t, "a-5", v1.PodSucceeded)
	s.waitStatus(t, "a", groupStatus{"Finished", 0, 6, 0})
	s.deletePods(t, "a-4", "a-5")
	s.restart(t)
	s.createPods(t, pods[6])
	s.waitBound(t, "a-6")
	s.check(t, s.r)
}

// TestCaseB023LateWorkerAndWholeGroup: a late worker of a gang that runs joins it at once. What is done about a lost member
// is said in the reason, and a first start is never smaller than minMember whatever the policy.
func TestCaseB023LateWorkerAndWholeGroup(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	s.createGroup(t, "e", 2)
	e := members("e", 4, kit.GPUs(1))
	s.createPods(t, e[:3]...)
	s.waitBound(t, names(e[:3])...)
	s.createPods(t, e[3])
	s.waitBound(t, "e-3")

	s.createGroup(t, "t", 4)
	whole := members("t", 5, kit.GPUs(1))
	s.createPods(t, whole[:4]...)
	s.waitBound(t, names(whole[:4])...)
	s.finish(t, "t-3", v1.PodFailed)
	s.waitReason(t, "t", "3 of 4 members exist", "on-member-loss: Replace")
	s.createPods(t, whole[4])
	s.waitBound(t, "t-4")
	s.check(t, s.r)

	s.deletePods(t, append(names(e), names(whole)...)...)
	for _, policy := range []string{"Keep", "Replace", "Evict"} {
		group := "first-" + strings.ToLower(policy)
		s.createGroup(t, group, 9, onLoss(policy))
		s.createPods(t, members(group, 9, kit.GPUs(1))...)
		s.waitReason(t, group, "8 of 9 pods can be placed")
		if n := s.boundOf(t, group); n != 0 {
			t.Errorf("%s: %d of a first start of 9 are bound", policy, n)
		}
	}
	s.waitFree(t, 8)
	s.check(t, s.r)
}

// TestCaseB026GroupSubmittedAgain: the group of five failed and rests for an hour when it is deleted. The next one of its
// name is another gang.
func TestCaseB026GroupSubmittedAgain(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 1, kit.N2)...)
	s.createGroup(t, "a", 5)
	old := members("a", 5, kit.GPUs(1))
	s.createPods(t, old...)
	s.waitReason(t, "a", "2 of 5 pods can be placed")
	s.deleteGroup(t, "a")
	s.deletePods(t, names(old)...)
	s.createGroup(t, "a", 2)
	next := []*v1.Pod{
		kit.Pod(namespace, "next-0", inGroup("a"), kit.GPUs(1)), kit.Pod(namespace, "next-1", inGroup("a"), kit.GPUs(1)),
	}
	s.createPods(t, next...)
	s.waitBound(t, names(next)...)
	s.check(t, s.r)
}

// TestCaseB027NodeLeavesUnderTheLastMember: two members wait at Permit and the third is in its cycle when its node is
// removed, so that minResources do not hold any more. The two are let go while the third still is in its cycle, and
// another pod has their cards.
func TestCaseB027NodeLeavesUnderTheLastMember(t *testing.T) {
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 3, kit.N1)...)
	in, out := s.holdLast(t, "a", 3)
	s.createGroup(t, "a", 3, minResources(3))
	pods := members("a", 3, kit.GPUs(1))
	s.createPods(t, pods...)
	last := <-in
	if free := s.r.freeCards(); free != 0 {
		t.Errorf("%d cards are free while the gang is planned, want 0", free)
	}
	s.deleteNode(t, last)
	s.waitFree(t, 2)
	close(out)
	s.door.set(nil)
	solo, soloNames := podsOf("solo", 2, kit.GPUs(1))
	s.createPods(t, solo...)
	s.waitBound(t, soloNames...)
	s.check(t, s.r)
	s.deletePods(t, soloNames...)
	s.waitReason(t, "a", "minResources asks for 3 of nvidia.com/gpu, 2 are free")
	s.createNodes(t, nodes("m", 1, kit.N1)...)
	s.waitBound(t, names(pods)...)
	s.check(t, s.r)
}

// TestCaseB028SurplusMembers: five members, three needed. With three cards three run and the others wait for themselves;
// with two cards nothing is held.
func TestCaseB028SurplusMembers(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 3, kit.N1)...)
	s.createGroup(t, "a", 3)
	pods := members("a", 5, kit.GPUs(1))
	s.createPods(t, pods...)
	s.waitGroupBound(t, "a", 3)
	for _, pod := range pods {
		if s.pod(t, pod.Name).Spec.NodeName == "" {
			s.waitRefused(t, pod.Name)
		}
	}
	if n := s.boundOf(t, "a"); n != 3 {
		t.Errorf("%d are bound after the surplus members failed, want 3", n)
	}
	s.check(t, s.r)
	s.createNodes(t, nodes("m", 1, kit.N1)...)
	s.waitGroupBound(t, "a", 4)
	s.deletePods(t, names(pods)...)
	s.deleteNode(t, "m1")
	s.deleteNode(t, "n3")
	s.waitFree(t, 2)

	s.createGroup(t, "b", 3)
	pods = members("b", 5, kit.GPUs(1))
	s.createPods(t, pods...)
	s.waitReason(t, "b", "2 of 3 pods can be placed")
	s.waitSays(t, "2 of 3 pods can be placed", names(pods)...)
	s.waitFree(t, 2)
	if n := s.boundOf(t, "b"); n != 0 {
		t.Errorf("%d are bound where the quorum is out of reach", n)
	}
	s.check(t, s.r)
}
