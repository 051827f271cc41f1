package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

var orderSeed = flag.Uint64("order-seed", 0, "first seed of TestAnyOrderOfObjects; 0 takes one from the clock")

// apiOrders is how many orders one run tries. The gang book alone is tried with far more, in pkg/book.
const apiOrders = 5

// TestAnyOrderOfObjects has the same objects created, changed and deleted in random orders, as fast as the API server takes
// them, with the scheduler stopped and started again in some. The end is the same.
func TestAnyOrderOfObjects(t *testing.T) {
	first := *orderSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("first seed: -order-seed=%d", first)
	c := startGangCluster(t)
	o := &orderRun{cluster: c, replica: startReplica(t, c.config, replicaOptions{})}
	goroutines := 0
	for i := range uint64(apiOrders) {
		o.rng = rand.New(rand.NewPCG(first+i, 0)) //nolint:gosec // orders, not secrets
		o.play(t, fmt.Sprintf("-order-seed=%d", first+i))
		if i == 0 {
			goroutines = runtime.NumGoroutine()
		}
	}
	eventually(t, "no more goroutines than after the first order", func(context.Context) (bool, error) {
		if n := runtime.NumGoroutine(); n > goroutines+5 {
			return false, fmt.Errorf("%d now, %d then", n, goroutines)
		}
		return true, nil
	})
}

// orderRun is one order on a cluster that others have been played on before.
type orderRun struct {
	*cluster
	replica *replica
	rng     *rand.Rand
	log     []string
}

// change is something that a user or controller does, after the changes that it names.
type change struct {
	name  string
	after []string
	do    func(t *testing.T)
}

// changes are, for one run:
//
//	n1 to n5  nodes of 8 cards
//	a  minMember 4                   4 pods of 2 cards
//	b  minMember 3                   4 pods of 1 card, and a fifth that is deleted
//	c  minMember 2                   2 pods of 4 cards, one with a gate that is taken away
//	d  minMember 2, deleted, then 3  3 pods of 2 cards
//	e  minMember 3                   2 pods of 8 cards: one is missing
//	f  minMember 2                   2 pods of 4 cards, deleted as the group is
func (o *orderRun) changes() []change {
	var out []change
	add := func(name string, do func(*testing.T), after ...string) { out = append(out, change{name, after, do}) }
	for _, node := range nodes("n", 5, testkit.N8s) {
		add(node.Name, func(t *testing.T) { o.createNodes(t, node) })
	}
	for _, g := range []struct {
		name string
		min  int32
		pods int
		gpus int64
	}{{"a", 4, 4, 2}, {"b", 3, 5, 1}, {"c", 2, 2, 4}, {"d", 2, 3, 2}, {"e", 3, 2, 8}, {"f", 2, 2, 4}} {
		add(g.name, func(t *testing.T) { o.createGroup(t, g.name, g.min) })
		for _, pod := range members(g.name, g.pods, testkit.GPUs(g.gpus)) {
			if pod.Name == "c-0" {
				gated(pod)
			}
			add(pod.Name, func(t *testing.T) { o.createPods(t, pod) })
		}
	}
	add("b-4 goes", func(t *testing.T) { o.deletePods(t, "b-4") }, "b-4")
	add("c-0 is ungated", func(t *testing.T) { o.ungate(t, "c-0") }, "c-0")
	add("d goes", func(t *testing.T) { o.deleteGroup(t, "d") }, "d")
	add("d again", func(t *testing.T) { o.createGroup(t, "d", 3) }, "d goes")
	add("f-0 goes", func(t *testing.T) { o.deletePods(t, "f-0") }, "f-0")
	add("f-1 goes", func(t *testing.T) { o.deletePods(t, "f-1") }, "f-1")
	add("f goes", func(t *testing.T) { o.deleteGroup(t, "f") }, "f")
	return out
}

// play makes all changes in a random order, looks at the end, and clears the cluster.
func (o *orderRun) play(t *testing.T, seed string) {
	t.Helper()
	o.log = nil
	changes, done := o.changes(), map[string]bool{}
	restart := o.rng.IntN(2 * len(changes)) // in every other order
	for len(changes) > 0 {
		if len(changes) == restart {
			o.log = append(o.log, "restart")
			o.replica.stop()
			o.replica = startReplica(t, o.config, replicaOptions{})
		}
		ready := slices.DeleteFunc(slices.Clone(changes), func(c change) bool {
			return slices.ContainsFunc(c.after, func(name string) bool { return !done[name] })
		})
		next := ready[o.rng.IntN(len(ready))]
		changes = slices.DeleteFunc(changes, func(c change) bool { return c.name == next.name })
		done[next.name] = true
		o.log = append(o.log, next.name)
		next.do(t)
	}
	t.Logf("%s: %s", seed, strings.Join(o.log, ", "))
	o.ends(t)
	o.clear(t)
}

// ends waits for the one end of all orders, and holds that nothing is held beside it and that who waits is told why.
func (o *orderRun) ends(t *testing.T) {
	t.Helper()
	want := map[string]int{"a": 4, "b": 4, "c": 2, "d": 3, "e": 0}
	eventually(t, "all that can run is bound", func(ctx context.Context) (bool, error) {
		have, err := o.boundOf(ctx)
		if err != nil {
			return false, err
		}
		if d := cmp.Diff(want, have); d != "" {
			return false, errors.New(d)
		}
		return true, nil
	})
	o.check(t, o.replica)
	if free := o.replica.freeCards(); free != 5*8-26 {
		t.Errorf("%d cards are free, want %d", free, 5*8-26)
	}
	o.waitTold(t, "2 of 3 members exist", "e-0", "e-1")
	for group, n := range want {
		phase := "Scheduled"
		if n == 0 {
			phase = "Pending"
		}
		o.waitStatus(t, group, groupStatus{Phase: phase})
	}
	last := testkit.Pod(namespace, "last")
	o.createPods(t, last)
	o.waitBound(t, last.Name)
}

// boundOf counts the bound pods of each group.
func (o *orderRun) boundOf(ctx context.Context) (map[string]int, error) {
	pods, err := o.pods(ctx)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for i := range pods {
		group := pods[i].Labels[v1alpha1.PodGroupLabel]
		out[group] += 0
		if pods[i].Spec.NodeName != "" {
			out[group]++
		}
	}
	return out, nil
}

// clear deletes everything, pods first.
func (o *orderRun) clear(t *testing.T) {
	t.Helper()
	pods, err := o.pods(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	uids := map[types.UID]string{}
	for i := range pods {
		uids[pods[i].UID] = pods[i].Name
	}
	o.deletePods(t, slices.Sorted(maps.Values(uids))...)
	o.check(t, o.replica)
	everything := metav1.ListOptions{}
	if err := o.groups().SchedulingV1alpha1().PodGroups(namespace).DeleteCollection(t.Context(), metav1.DeleteOptions{}, everything); err != nil {
		t.Fatal(err)
	}
	if err := o.client.CoreV1().Nodes().DeleteCollection(t.Context(), metav1.DeleteOptions{}, everything); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ledger knows no node", func(context.Context) (bool, error) {
		for range o.replica.engine.Ledger().Nodes() {
			return false, nil
		}
		return true, nil
	})
}
