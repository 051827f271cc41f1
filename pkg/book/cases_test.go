package book

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB003AttemptsFollowTheBackoff: something that might help happens every second, and does not. The gang is planned
// no more often than its backoff allows, and holds nothing in between.
func TestCaseB003AttemptsFollowTheBackoff(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.create(b.member("", "other", kit.GPUs(1)))
	b.run()
	b.group("a", 2)
	b.create(b.members("a", 2, kit.GPUs(4))...)
	b.run()
	key := GroupKey{ns, "a"}
	rounds := b.groups[key].failures()
	if rounds != 1 {
		t.Fatalf("%d plans failed at once, want 1", rounds)
	}
	for range 119 {
		b.clock.Step(time.Second)
		b.run()
		b.cure()
		b.run()
		if b.free() != 7 {
			t.Fatalf("%d cards are free while the gang waits, want 7", b.free())
		}
	}
	if rounds = b.groups[key].failures(); rounds > 12 || rounds < 6 {
		t.Errorf("the gang was planned %d times in 120 s with a backoff of 10 s, want at most 12 and at least 6", rounds)
	}
	b.check()
}

// TestCaseB006AnyOrderOfObjects: the PodGroup and its four pods come in each of the 120 orders; all are bound, and no clock
// has to move for it.
func TestCaseB006AnyOrderOfObjects(t *testing.T) {
	for n, order := range permutations([]int{0, 1, 2, 3, 4}) {
		b := newBench(t)
		b.node("n1", kit.N2)
		b.node("n2", kit.N2)
		pods := b.members("a", 4, kit.GPUs(1))
		for i, object := range order {
			if object == 4 {
				b.group("a", 4)
			} else {
				b.create(pods[object])
			}
			b.run()
			if bound := b.bound(pods...); i < 4 && bound > 0 {
				t.Fatalf("order %v: %d are bound after %d of 5 objects", order, bound, i+1)
			}
		}
		if bound := b.bound(pods...); bound != 4 {
			t.Fatalf("order %d, %v: %d of 4 are bound", n, order, bound)
		}
		b.check()
	}
}

func permutations(of []int) [][]int {
	if len(of) == 0 {
		return [][]int{nil}
	}
	var out [][]int
	for i := range of {
		rest := append(append([]int{}, of[:i]...), of[i+1:]...)
		for _, tail := range permutations(rest) {
			out = append(out, append([]int{of[i]}, tail...))
		}
	}
	return out
}

// TestCaseB017RoomComesAtAnyMoment: there is room for one of two members until, in half the runs, another pod ends at a
// random moment between the steps of their cycles. Both are bound in the end, or neither is.
func TestCaseB017RoomComesAtAnyMoment(t *testing.T) {
	random := rand.New(rand.NewPCG(17, 1))
	for run := range 500 {
		b := newBench(t)
		b.node("n1", kit.N1)
		b.node("n2", kit.N1)
		x := b.member("", "x", kit.GPUs(1))
		b.create(x)
		b.run()
		pods := b.members("a", 2, kit.GPUs(1))
		leaves := run%2 == 0
		steps := []func(){
			func() { b.group("a", 2) }, func() { b.create(pods[0]) }, func() { b.create(pods[1]) },
			func() { b.step() }, func() { b.next() }, func() { b.permitted() }, func() { b.next() }, func() { b.cure() },
		}
		if leaves {
			steps = append(steps, func() { b.remove(x); b.cure() })
		}
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		for _, do := range steps {
			do()
		}
		b.pass(15 * time.Second)
		want := 0
		if leaves {
			want = 2
		}
		if bound := b.bound(pods...); bound != want {
			t.Fatalf("run %d, x leaves: %t: %d are bound, want %d", run, leaves, bound, want)
		}
		b.check()
	}
}

// TestCaseB020EndComesInSeveralEvents: members are a set of UIDs, whatever tells of their end, how often, and in which
// order; and so they are for the next process.
func TestCaseB020EndComesInSeveralEvents(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	g := b.group("a", 3)
	pods := b.members("a", 3, kit.GPUs(1))
	b.create(pods...)
	b.run()
	for i := range pods {
		pods[i] = b.change(b.current(pods[i]), func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
	}
	want := func(what string, running, succeeded int) {
		t.Helper()
		if c := b.counts("a"); c.Running != running || c.Succeeded != succeeded || c.Bound != running {
			t.Errorf("%s: %d run, %d are bound, %d have succeeded, want %d, %d, %d", what, c.Running, c.Bound, c.Succeeded, running, running, succeeded)
		}
		b.check()
	}
	want("all run", 3, 0)
	ended := b.finish(pods[0], v1.PodSucceeded)
	want("a-0 has succeeded", 2, 1)
	b.EndedGone(ended)
	want("a-0 is deleted", 2, 1)
	b.EndedGone(ended)
	b.PodGone(ended)
	b.PodGone(pods[0])
	b.pass(5 * time.Second)
	want("the delete comes again, also as one of a living pod", 2, 1)
	never := b.member("a", "never", kit.GPUs(8))
	b.create(never)
	b.run()
	b.remove(never)
	b.PodGone(never)
	want("a pod that never reserved is deleted", 2, 1)

	next := newBench(t)
	next.node("n1", kit.N8s)
	for _, pod := range pods[1:] {
		next.create(pod)
	}
	next.group("a", 3, func(seen *podgroup.Group) {
		seen.UID, seen.RecordedSucceeded, seen.RecordedRan = g.UID, 1, true
	})
	if c := next.counts("a"); c.Running != 2 || c.Succeeded != 1 {
		t.Errorf("after a restart %d run and %d have succeeded, want 2 and 1", c.Running, c.Succeeded)
	}
}

// TestCaseB011WaitIsWhatIsStated: whoever waits at Permit is told the PodGroup's own timeout, and is let go then, neither
// before nor after.
func TestCaseB011WaitIsWhatIsStated(t *testing.T) {
	b := newBench(t, func(s *Settings) { s.Gang.PlanTTL = time.Hour })
	b.node("n1", kit.N8s)
	b.group("a", 2, func(g *podgroup.Group) { g.Spec.Timeout = 15 * time.Minute })
	pods := b.members("a", 2, kit.GPUs(4))
	b.create(pods...)
	if got := b.cycle(pods[0]); got != "waits" {
		t.Fatalf("the first member: %s, want it to wait", got)
	}
	waiting := b.host.waiting[pods[0].UID]
	if waiting.timeout != 15*time.Minute {
		t.Errorf("it is to wait for %s, want 15m", waiting.timeout)
	}
	b.clock.Step(15*time.Minute - time.Second)
	b.step()
	if waiting.decided {
		t.Fatal("it is let go a second before its time")
	}
	b.clock.Step(time.Second)
	b.step()
	if !waiting.decided || waiting.allowed {
		t.Fatal("it still waits when its time is over")
	}
	b.permitted()
	if b.free() != 8 {
		t.Errorf("%d cards are free, want 8", b.free())
	}
	b.check()
}

// TestPlanWithoutProgressIsGivenBack: of eight planned members seven arrive. The plan is held for its time to live and not
// longer, and a gang that needs the cards has them at once.
func TestPlanWithoutProgressIsGivenBack(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("a", 8)
	b.group("b", 4)
	pods := b.members("a", 8, kit.GPUs(1))
	b.create(pods...)
	for _, pod := range pods[:7] {
		if got := b.cycle(pod); got != "waits" {
			t.Fatalf("%s: %s, want it to wait", pod.Name, got)
		}
	}
	clear(b.queue)
	b.refuse = func(pod *v1.Pod, _ string) string { t.Errorf("%s is tried", pod.Name); return "" }
	b.clock.Step(5*time.Second - time.Millisecond)
	b.step()
	if b.free() != 0 {
		t.Fatalf("%d cards are free before the plan's time is over", b.free())
	}
	b.clock.Step(time.Millisecond)
	b.step()
	b.host.take()
	for b.permitted() {
	}
	if b.free() != 8 {
		t.Fatalf("%d cards are free when the plan's time is over, want 8", b.free())
	}
	smaller := b.members("b", 4, kit.GPUs(1))
	b.refuse = nil
	b.create(smaller...)
	b.run()
	if bound := b.bound(smaller...); bound != 4 {
		t.Errorf("%d of the smaller gang are bound, want 4", bound)
	}
	b.check()
}

// TestManyGangsAtTwiceTheCapacity: a hundred gangs of three on nodes that hold two members each. As many run whole as fit
// in number, whatever order their pods come in; the others hold nothing.
func TestManyGangsAtTwiceTheCapacity(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			b := newBench(t)
			const slots = 152 // of 300 members: 50 gangs and two slots that no gang can use
			for i := range slots / 2 {
				b.node(fmt.Sprintf("n%02d", i), kit.N8s)
			}
			gangs := make([][]*v1.Pod, 100)
			var all []*v1.Pod
			for i := range gangs {
				name := fmt.Sprintf("g%02d", i)
				b.group(name, 3)
				gangs[i] = b.members(name, 3, kit.GPUs(4))
				all = append(all, gangs[i]...)
			}
			rand.New(rand.NewPCG(seed, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			for _, pod := range all {
				b.create(pod)
				b.next()
			}
			b.pass(30 * time.Second)
			whole := 0
			for i, pods := range gangs {
				switch n := b.bound(pods...); n {
				case 3:
					whole++
				case 0:
				default:
					t.Errorf("gang %d runs in part: %d of 3", i, n)
				}
			}
			if whole != slots/3 {
				t.Errorf("%d gangs run, %d fit", whole, slots/3)
			}
			if want := 8*slots/2 - 4*3*(slots/3); b.free() != want {
				t.Errorf("%d cards are free, want the %d that no gang fits on", b.free(), want)
			}
			b.check()
		})
	}
}

// TestUnsettledVerdictFindsThePodThatComesToWait: a sibling's failure comes between a member's answer at Permit and the
// moment the framework has it waiting. It does not wait for its timeout.
func TestUnsettledVerdictFindsThePodThatComesToWait(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("a", 2)
	pods := b.members("a", 2, kit.GPUs(4))
	b.create(pods...)
	b.cycle(pods[0])
	late := b.host.waiting[pods[0].UID]
	delete(b.host.waiting, pods[0].UID)
	b.remove(pods[1])
	if late.decided {
		t.Fatal("the test shows nothing: the pod was found waiting")
	}
	b.host.waiting[pods[0].UID] = late
	b.clock.Step(retryPeriod)
	b.step()
	if !late.decided || late.allowed {
		t.Error("the pod waits on after its gang was given up")
	}
	b.permitted()
	if stage, _ := b.groups[GroupKey{ns, "a"}].state.Stage(ledger.PodUID(pods[0].UID)); stage != gang.StagePending {
		t.Errorf("the member is %s, want pending", stage)
	}
	if b.free() != 8 {
		t.Errorf("%d cards are free, want 8", b.free())
	}
	b.check()
}
