package book

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
)

var orderSeed = flag.Uint64("order-seed", 0, "first seed of TestAnyOrder; 0 takes one from the clock")

// orders is how many orders one run of TestAnyOrder tries.
const orders = 200

// TestAnyOrder has the same things happen in many orders, with the scheduler anywhere in its work when each of them does,
// and restarted now and then. Whatever the order, the same pods run in the end, and nothing is held that should not be.
//
//	a  minMember 5, lowered to 4     4 pods of 2 cards
//	b  minMember 3                   4 pods of 1 card, and a fifth that goes again
//	c  minMember 2                   2 pods of 4 cards, one with a gate that is taken away
//	d  minMember 2, deleted, then 3  3 pods of 2 cards
//	e  minMember 3                   2 pods of 8 cards: one is missing
//	f  minMember 4                   4 pods of 4 cards, all deleted, the group too
//	-                                2 pods of 1 card
//	n1 to n6                         n1 is lost and comes back; a seventh is there for a while, its pods come anew elsewhere
func TestAnyOrder(t *testing.T) {
	first := *orderSeed
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	t.Logf("first seed: -order-seed=%d", first)
	want := strings.Fields("a:4/4 b:4/4 c:2/2 d:3/3 e:0/2 solo:2/2 free:20")
	metrics.Register()
	before, restarts := rollbacks(t), 0
	for i := range uint64(orders) {
		w := newOrderWorld(t, first+i)
		w.play(orderSteps())
		if d := cmp.Diff(want, w.outcome()); d != "" {
			t.Errorf("-order-seed=%d: bound pods of all (-want +got):\n%s\norder: %s", first+i, d, strings.Join(w.log, ", "))
		}
		w.allIsSaid()
		restarts += w.restarts
		if t.Failed() {
			t.FailNow()
		}
	}
	if given := rollbacks(t) - before; restarts == 0 || given == 0 {
		t.Errorf("%d restarts and %v plans given back: the orders show little", restarts, given)
	}
}

func rollbacks(t *testing.T) float64 {
	t.Helper()
	n, err := testutil.GetCounterMetricValue(metrics.GangRollbacks)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// orderStep is a thing that happens, after those that it names.
type orderStep struct {
	name  string
	after []string
	do    func(*orderWorld)
}

func orderSteps() []orderStep {
	var steps []orderStep
	add := func(name string, do func(*orderWorld), after ...string) {
		steps = append(steps, orderStep{name, after, do})
	}
	for i := range 6 {
		name := fmt.Sprintf("n%d", i+1)
		add(name, func(w *orderWorld) { w.addNode(name) })
	}
	add("n1 lost", func(w *orderWorld) { w.loseNode("n1") }, "n1")
	add("n1 back", func(w *orderWorld) { w.addNode("n1") }, "n1 lost")
	add("n7", func(w *orderWorld) { w.addNode("n7") })
	add("n7 goes", func(w *orderWorld) { w.removeNode("n7") }, "n7")
	for _, g := range []struct {
		name            string
		minMember, pods int
		gpus            int64
	}{{"a", 5, 4, 2}, {"b", 3, 5, 1}, {"c", 2, 2, 4}, {"d", 2, 3, 2}, {"e", 3, 2, 8}, {"f", 4, 4, 4}, {"", 0, 2, 1}} {
		if g.name != "" {
			add(g.name, func(w *orderWorld) { w.addGroup(g.name, g.minMember) })
		}
		for i := range g.pods {
			name := fmt.Sprintf("%s-%d", g.name, i)
			add(name, func(w *orderWorld) { w.addPod(g.name, g.gpus, name == "c-0") })
			if g.name == "f" {
				add(name+" goes", func(w *orderWorld) { w.removePod("f") }, name)
			}
		}
	}
	add("a needs 4", func(w *orderWorld) { w.changeGroup("a", 4) }, "a")
	add("b loses one", func(w *orderWorld) { w.removePod("b") }, "b-0")
	add("c is ungated", func(w *orderWorld) { w.ungate("c") }, "c-0")
	add("d goes", func(w *orderWorld) { w.removeGroup("d") }, "d")
	add("d again", func(w *orderWorld) { w.addGroup("d", 3) }, "d goes")
	add("f goes", func(w *orderWorld) { w.removeGroup("f") }, "f")
	return steps
}

// orderWorld is a bench with what the API shows beside pods, and a controller that replaces pods which are lost.
type orderWorld struct {
	*bench
	test    *testing.T
	rng     *rand.Rand
	planner *placement.Planner
	up      map[string]bool
	shown   map[string]podgroup.Group
	log     []string
	// hasty is an order in which things happen while the scheduler is in the middle of its work.
	hasty bool
	// whole are the UIDs of groups that reached their quorum once.
	whole    map[gang.GroupUID]bool
	restarts int
}

func newOrderWorld(t *testing.T, seed uint64) *orderWorld {
	rng := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // orders, not secrets
	w := &orderWorld{
		bench: newBench(t), test: t, rng: rng, planner: placement.NewPlanner(allocate.NewChooser()), up: map[string]bool{},
		shown: map[string]podgroup.Group{}, hasty: rng.IntN(2) == 0, whole: map[gang.GroupUID]bool{},
	}
	w.ungated = seed%2 == 0
	w.wire()
	return w
}

// play takes the steps in a random order that respects what each comes after, lets the scheduler work in between, and looks
// at what is held each time.
func (w *orderWorld) play(steps []orderStep) {
	w.t.Helper()
	done := map[string]bool{}
	for len(steps) > 0 && !w.test.Failed() {
		ready := slices.DeleteFunc(slices.Clone(steps), func(s orderStep) bool {
			return slices.ContainsFunc(s.after, func(name string) bool { return !done[name] })
		})
		next := ready[w.rng.IntN(len(ready))]
		steps = slices.DeleteFunc(steps, func(s orderStep) bool { return s.name == next.name })
		done[next.name] = true
		w.log = append(w.log, next.name)
		next.do(w)
		w.work()
		w.held()
	}
	w.pass(2 * time.Minute)
	w.evictions()
	w.collect()
	w.pass(time.Minute)
	w.held()
	w.halves()
}

// work is what the scheduler gets done before the next thing happens.
func (w *orderWorld) work() {
	w.t.Helper()
	if w.rng.IntN(30) == 0 {
		w.restart()
	}
	if w.hasty {
		for range w.rng.IntN(4) {
			switch w.rng.IntN(4) {
			case 0:
				w.clock.Step(time.Duration(w.rng.IntN(50)) * time.Millisecond)
				w.step()
			case 1:
				w.permitted()
			default:
				w.activated()
				w.next()
			}
		}
		w.collect()
		return
	}
	if w.rng.IntN(3) == 0 {
		w.pass(time.Duration(w.rng.IntN(3000)) * time.Millisecond)
	}
	w.run()
	w.evictions()
	w.run()
	w.halves()
}

// evictions are those that the API server is asked for; the controller makes new pods of what is evicted.
func (w *orderWorld) evictions() {
	w.t.Helper()
	w.evictAll(context.Background())
	for _, name := range w.host.evicted {
		for _, pod := range w.all() {
			if pod.Name == name {
				w.replace(pod)
			}
		}
	}
	w.host.evicted = nil
}

// outcome is how many pods of each group are bound, of how many, and how many cards nobody holds.
func (w *orderWorld) outcome() []string {
	bound, all := map[string]int{}, map[string]int{}
	for _, pod := range w.all() {
		group := groupOf(pod)
		all[group]++
		bound[group] += w.bound(pod)
	}
	var out []string
	for _, group := range slices.Sorted(maps.Keys(all)) {
		out = append(out, fmt.Sprintf("%s:%d/%d", group, bound[group], all[group]))
	}
	return append(out, fmt.Sprintf("free:%d", w.free()))
}

// held holds that the ledger is sound (U1), that every reservation is of a live pod which is bound or on its way (U4), and
// that the ledger has of bound pods what their records say (U2).
func (w *orderWorld) held() {
	w.t.Helper()
	w.sound()
	live := map[types.UID]*v1.Pod{}
	for _, pod := range w.all() {
		live[pod.UID] = pod
	}
	for _, uid := range w.ledger.Pods() {
		pod := live[types.UID(uid)]
		h, stage, _ := w.ledger.Holding(uid)
		switch {
		case pod == nil:
			w.t.Errorf("%s holds %d cards of node %s and is gone; order: %v", uid, len(h.Cards), h.Node, w.log)
		case (stage == ledger.StageBound) != (pod.Spec.NodeName != ""):
			w.t.Errorf("pod %s is on node %q and its stage is %v; order: %v", pod.Name, pod.Spec.NodeName, stage, w.log)
		case stage != ledger.StageBound && w.Planned(uid) == nil && w.host.waiting[pod.UID] == nil:
			w.t.Errorf("pod %s holds cards, and nobody plans it or waits with it; order: %v", pod.Name, w.log)
		}
		delete(live, types.UID(uid))
	}
	for _, pod := range live {
		if pod.Spec.NodeName != "" {
			w.t.Errorf("pod %s is bound and holds nothing; order: %v", pod.Name, w.log)
		}
	}
}

// sound holds that ledger and gangs are whole in themselves, and that planned members hold their cards on nodes that answer.
func (w *orderWorld) sound() {
	w.t.Helper()
	if err := w.ledger.Check(); err != nil {
		w.t.Errorf("ledger: %v; order: %v", err, w.log)
	}
	for _, g := range w.groups {
		if g.state == nil {
			continue
		}
		if err := g.state.Check(); err != nil {
			w.t.Errorf("gang %s: %v; order: %v", g.key, err, w.log)
		}
		for uid, m := range g.members {
			if stage, _ := g.state.Stage(uid); stage != gang.StagePlanned && stage != gang.StageReserved {
				continue
			}
			if _, _, held := w.ledger.Holding(uid); !held || m.plan == nil {
				w.t.Errorf("pod %s is planned: %t, and holds its cards: %t; order: %v", m.pod.Name, m.plan != nil, held, w.log)
			} else if w.Lost(m.plan.Node) {
				w.t.Errorf("pod %s is planned on the lost node %s; order: %v", m.pod.Name, m.plan.Node, w.log)
			}
		}
	}
}

// halves holds that no group has a part of its quorum bound that never had all of it (U3).
func (w *orderWorld) halves() {
	w.t.Helper()
	for name, g := range w.shown {
		n := 0
		for _, pod := range w.all() {
			if groupOf(pod) == name {
				n += w.bound(pod)
			}
		}
		if n >= g.Spec.MinMember {
			w.whole[g.UID] = true
		}
		if n > 0 && !w.whole[g.UID] && !w.inherited(name) {
			w.t.Errorf("%d of %d members of group %s are bound; order: %v", n, g.Spec.MinMember, name, w.log)
		}
	}
}

// inherited is true of a group that was created again while pods of the old one ran.
func (w *orderWorld) inherited(name string) bool { return name == "d" }

// allIsSaid holds that every pod that waits is told why (U6), and that a pod which comes now is bound (U8).
func (w *orderWorld) allIsSaid() {
	w.t.Helper()
	for _, pod := range w.all() {
		if pod.Spec.NodeName != "" {
			continue
		}
		if reason := w.reasonOfPod(pod); !strings.Contains(reason, "2 of 3 members exist") {
			w.t.Errorf("pod %s waits for %q", pod.Name, reason)
		}
	}
	last := w.addPod("", 1, false)
	w.run()
	if w.bound(last) != 1 {
		w.t.Errorf("a pod that comes last is not bound; order: %v", w.log)
	}
}
