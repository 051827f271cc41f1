package integration

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// running creates a gang and has all its members run.
func (s *stage) running(t *testing.T, group string, n int, options ...groupOption) []*v1.Pod {
	t.Helper()
	s.createGroup(t, group, int32(n), options...)
	pods := members(group, n, kit.GPUs(4))
	s.createPods(t, pods...)
	s.waitBound(t, names(pods)...)
	s.setPhases(t, pods, slices.Repeat([]v1.PodPhase{v1.PodRunning}, n)...)
	s.waitStatus(t, group, groupStatus{"Running", int32(n), 0, 0})
	return pods
}

// taint sets or takes away the taint of a node that does not answer.
func (s *stage) taint(t *testing.T, node string, taints ...string) {
	t.Helper()
	eventually(t, "taint "+node, func(ctx context.Context) (bool, error) {
		n, err := s.client.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		n.Spec.Taints = nil
		for _, key := range taints {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoExecute})
		}
		_, err = s.client.CoreV1().Nodes().Update(ctx, n, metav1.UpdateOptions{})
		return err == nil, err
	})
}

// terminating lists the members that are being deleted.
func (s *stage) terminating(ctx context.Context, group string) ([]string, error) {
	list, err := s.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.PodGroupLabel + "=" + group})
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			out = append(out, list.Items[i].Name)
		}
	}
	return out, nil
}

func (s *stage) waitTerminating(t *testing.T, group string, n int) []string {
	t.Helper()
	var last []string
	eventually(t, fmt.Sprintf("%d pods of %s terminate", n, group), func(ctx context.Context) (bool, error) {
		var err error
		if last, err = s.terminating(ctx, group); err == nil && len(last) != n {
			err = fmt.Errorf("these do: %v", last)
		}
		return err == nil, err
	})
	return last
}

// TestLossKeep: the others go on, and whoever comes joins them alone.
func TestLossKeep(t *testing.T) {
	s := startStage(t)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	s.running(t, "a", 4, onLoss("Keep"))
	s.deletePods(t, "a-2", "a-3")
	s.waitStatus(t, "a", groupStatus{"Scheduling", 2, 0, 0})
	s.createPods(t, kit.Pod(namespace, "a-4", inGroup("a"), kit.GPUs(4)))
	s.waitBound(t, "a-4") // one of two that are missing
	s.check(t, s.r)
	if gone, err := s.terminating(t.Context(), "a"); len(gone) > 0 || err != nil {
		t.Errorf("%v are evicted, error %v", gone, err)
	}
}

// TestLossReplace: two members are lost with their node. The two that come for them are planned together, beside the others
// or not at all.
func TestLossReplace(t *testing.T) {
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	s.running(t, "a", 4)
	lost := s.pod(t, "a-3").Spec.NodeName
	s.taint(t, lost, v1.TaintNodeUnreachable)
	s.waitReason(t, "a", "2 of 4 members exist", "on-member-loss: Replace")
	s.createPods(t, kit.Pod(namespace, "a-4", inGroup("a"), kit.GPUs(4)))
	s.waitSays(t, "3 of 4 members exist", "a-4")
	s.createPods(t, kit.Pod(namespace, "a-5", inGroup("a"), kit.GPUs(4)))
	s.waitReason(t, "a", "0 of 2 pods can be placed", "not ready, unreachable")
	if held := append(s.holds("a-4"), s.holds("a-5")...); len(held) > 0 {
		t.Errorf("%v hold cards and do not fit together", held)
	}
	s.createNodes(t, nodes("m", 1, kit.N8s)...)
	s.waitBound(t, "a-4", "a-5")
	for _, name := range []string{"a-4", "a-5"} {
		if node := s.pod(t, name).Spec.NodeName; node != "m1" {
			t.Errorf("%s is on %s, want m1", name, node)
		}
	}
	s.check(t, s.r)
}

// budget forbids every eviction of a group's pods, or allows n. The controller that counts does not run here.
func (s *stage) budget(t *testing.T, group string, allowed int32) {
	t.Helper()
	all := intstr.FromInt32(100)
	budgets := s.client.PolicyV1().PodDisruptionBudgets(namespace)
	b, err := budgets.Get(t.Context(), group, metav1.GetOptions{})
	if err != nil {
		b, err = budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: group},
			Spec: policyv1.PodDisruptionBudgetSpec{
				MinAvailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.PodGroupLabel: group}},
			},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Generation, DisruptionsAllowed: allowed, ExpectedPods: 3, CurrentHealthy: 3}
	if _, err := budgets.UpdateStatus(t.Context(), b, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestLossEvict: a node is cut off. The other half of the gang is evicted, as fast as a PodDisruptionBudget lets it, and the
// next pods are a fresh gang that starts whole, elsewhere.
func TestLossEvict(t *testing.T) {
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	s.running(t, "a", 4, onLoss("Evict"))
	s.budget(t, "a", 0)
	lost := s.pod(t, "a-3").Spec.NodeName
	s.taint(t, lost, v1.TaintNodeUnreachable)
	s.waitReason(t, "a", "of 4 members are left", "on-member-loss: Evict")
	s.waitEvent(t, "GangBroken", "")
	if gone, err := s.terminating(t.Context(), "a"); len(gone) > 0 || err != nil {
		t.Errorf("%v are evicted against the budget, error %v", gone, err)
	}
	s.budget(t, "a", 1)
	s.clock.Step(10 * time.Second)
	s.waitTerminating(t, "a", 1)
	s.budget(t, "a", 3)
	s.clock.Step(10 * time.Second)
	s.waitTerminating(t, "a", 4)

	fresh := []*v1.Pod{}
	for i := 4; i < 8; i++ {
		fresh = append(fresh, kit.Pod(namespace, fmt.Sprintf("a-%d", i), inGroup("a"), kit.GPUs(4)))
	}
	s.createNodes(t, nodes("m", 1, kit.N8s)...)
	s.createPods(t, fresh...)
	s.waitReason(t, "a", "2 of 4 pods can be placed") // those that are being stopped keep their cards
	s.deletePods(t, "a-0", "a-1", "a-2", "a-3")
	s.waitBound(t, names(fresh)...)
	for _, pod := range fresh {
		if node := s.pod(t, pod.Name).Spec.NodeName; node == lost {
			t.Errorf("%s is on the node that does not answer", pod.Name)
		}
	}
	s.check(t, s.r)
}

// lease is renewed now, by the node's own clock.
func (s *stage) lease(t *testing.T, node string) {
	t.Helper()
	leases := s.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	now := metav1.NewMicroTime(time.Now())
	l, err := leases.Get(t.Context(), node, metav1.GetOptions{})
	if err != nil {
		_, err = leases.Create(t.Context(), &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: node}, Spec: coordinationv1.LeaseSpec{RenewTime: &now},
		}, metav1.CreateOptions{})
	} else {
		l.Spec.RenewTime = &now
		_, err = leases.Update(t.Context(), l, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestNodesThatDoNotAnswer: no gang is planned on a node that is tainted as unreachable or not ready, whatever it tolerates,
// or whose lease is stale. Each becomes usable again when it answers.
func TestNodesThatDoNotAnswer(t *testing.T) {
	s := startStage(t, restless)
	s.createNodes(t, nodes("n", 1, kit.N8s)...)
	tolerant := func(p *v1.Pod) {
		p.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	}
	for _, key := range []string{v1.TaintNodeUnreachable, v1.TaintNodeNotReady} {
		t.Run(key, func(t *testing.T) {
			group := "g" + key[len("node.kubernetes.io/"):]
			s.taint(t, "n1", key)
			s.createGroup(t, group, 2)
			pods := members(group, 2, kit.GPUs(4), tolerant)
			s.createPods(t, pods...)
			s.waitReason(t, group, "0 of 2 pods can be placed", "not ready, unreachable or with a stale lease")
			if free := s.r.freeCards(); free != 8 {
				t.Errorf("%d cards are free, want 8", free)
			}
			s.taint(t, "n1")
			s.waitBound(t, names(pods)...)
			s.deletePods(t, names(pods)...)
			s.waitFree(t, 8)
		})
	}
	t.Run("stale lease", func(t *testing.T) {
		s.lease(t, "n1")
		s.createGroup(t, "a", 2)
		s.createPods(t, members("a", 2, kit.GPUs(4))...)
		s.waitGroupBound(t, "a", 2)
		s.deletePods(t, "a-0", "a-1")
		s.waitFree(t, 8)
		s.clock.Step(time.Minute)
		s.createGroup(t, "b", 2)
		s.createPods(t, members("b", 2, kit.GPUs(4))...)
		s.waitReason(t, "b", "0 of 2 pods can be placed", "not ready, unreachable or with a stale lease")
		s.lease(t, "n1")
		s.waitGroupBound(t, "b", 2)
	})
	s.check(t, s.r)
}

// TestTurn: a gang needs two whole nodes, and cards come free one at a time, each wanted by a pod that came later. After
// three failed plans it has its turn: later pods get no more cards there, a higher priority does, and it runs when the last
// older pod has ended. Whoever was held back is placed when the gang ends.
func TestTurn(t *testing.T) {
	s := startStage(t, restless, func(args *config.CoschedulingArgs) { *args.TurnAfter = 3 })
	s.createPriorityClass(t, "high", 1000)
	s.createNodes(t, nodes("n", 2, kit.N8s)...)
	older, olderNames := podsOf("older", 16, kit.GPUs(1))
	s.createPods(t, older...)
	s.waitBound(t, olderNames...)
	s.createGroup(t, "big", 2)
	big := members("big", 2, kit.GPUs(8))
	s.createPods(t, big...)
	s.waitReason(t, "big", "0 of 2 pods can be placed")
	held := ""
	for i := range 10 {
		s.deletePods(t, olderNames[i])
		s.waitReason(t, "big", "0 of 2 pods can be placed")
		name := fmt.Sprintf("later-%d", i)
		s.createPods(t, kit.Pod(namespace, name, kit.GPUs(1)))
		if s.boundOrKept(t, name) {
			olderNames = append(olderNames, name)
			continue
		}
		held, olderNames = name, olderNames[i+1:]
		break
	}
	if held == "" {
		t.Fatal("the gang got no turn although ten pods passed it by")
	}
	urgent := kit.Pod(namespace, "urgent", kit.GPUs(1))
	urgent.Spec.PriorityClassName = "high"
	s.createPods(t, urgent)
	s.waitBound(t, "urgent")
	s.deletePods(t, append(olderNames, "urgent")...)
	s.waitBound(t, names(big)...)
	s.check(t, s.r)
	s.deletePods(t, names(big)...)
	s.waitBound(t, held)
	s.check(t, s.r)
}

// boundOrKept waits until the pod is bound, which it returns true for, or says that nodes are kept for a gang.
func (s *stage) boundOrKept(t *testing.T, name string) (bound bool) {
	t.Helper()
	eventually(t, name+" is bound or kept off", func(ctx context.Context) (bool, error) {
		pod, err := s.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		bound = pod.Spec.NodeName != ""
		for _, condition := range pod.Status.Conditions {
			if condition.Type == v1.PodScheduled && contains(condition.Message, "kept for gang team/big") {
				return true, nil
			}
		}
		return bound, nil
	})
	return bound
}
