package gang

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// wantSteps is how many random events TestStateMachine runs at least.
const wantSteps = 50_000

// mustMeet is what random events have to reach for the test to say anything.
var mustMeet = []string{
	"allow", "reject", "release", "activate", "evict", "failure", "canary", "followers", "late plan", "replan", "alone",
	"forming", "planned", "admitting", "running", "broken", "finished", "recovered", "completes",
}

// machine drives a State and the model through the same events.
type machine struct {
	s     *State
	m     *model
	steps *int
	met   map[string]int
	// uids are the pods in play, nodes the nodes.
	uids  []ledger.PodUID
	nodes []ledger.NodeName
	// plans and deleted are how many there were.
	plans, deleted int
}

// TestStateMachine runs random events. After each: what State answers is right by the model, it counts what the model
// counts, and every member is told what the model says.
func TestStateMachine(t *testing.T) {
	steps, met := 0, map[string]int{}
	for steps < wantSteps && !t.Failed() {
		rapid.Check(t, func(t *rapid.T) { runMachine(t, &steps, met) })
	}
	t.Logf("%d steps: %v", steps, met)
	for _, name := range mustMeet {
		if met[name] == 0 {
			t.Errorf("%d steps never met %q", steps, name)
		}
	}
}

func FuzzStateMachine(f *testing.F) {
	steps, met := 0, map[string]int{}
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { runMachine(t, &steps, met) }))
}

func runMachine(t *rapid.T, steps *int, met map[string]int) {
	config := Config{
		PermitTimeout: 8 * time.Second, PlanTTL: 5 * time.Second, BackoffInitial: 2 * time.Second, BackoffMax: 12 * time.Second,
	}
	spec := drawSpec(t)
	recorded, ran := rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "recorded"), rapid.Bool().Draw(t, "ran")
	x := &machine{s: New("ns/a", config, spec), m: newModel(config, spec, recorded, ran), steps: steps, met: met}
	x.s.Recorded(recorded, ran)
	for i := range 7 {
		x.uids = append(x.uids, ledger.PodUID(fmt.Sprintf("p%d", i)))
	}
	x.nodes = []ledger.NodeName{"n0", "n1", "n2"}
	t.Repeat(map[string]func(*rapid.T){
		"arrive": x.arrive, "sight": x.sight, "gone": x.goneAway, "try": x.try, "try again": x.try, "cycle": x.cycle,
		"cycle again": x.cycle, "finish": x.finish, "finish again": x.finish, "stray": x.stray, "group": x.group, "time": x.pass,
	})
	x.drain(t)
}

func drawSpec(t *rapid.T) Spec {
	return Spec{
		MinMember: rapid.IntRange(1, 5).Draw(t, "min"),
		OnLoss:    rapid.SampledFrom([]LossPolicy{LossReplace, LossKeep, LossEvict}).Draw(t, "loss"),
		Timeout:   rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "timeout"),
	}
}

func (x *machine) pod(t *rapid.T) ledger.PodUID    { return rapid.SampledFrom(x.uids).Draw(t, "pod") }
func (x *machine) node(t *rapid.T) ledger.NodeName { return rapid.SampledFrom(x.nodes).Draw(t, "node") }
func (x *machine) once(t *rapid.T, in int) bool    { return rapid.IntRange(1, in).Draw(t, "once") == 1 }
func (x *machine) sighting(uid ledger.PodUID) Sighting {
	if p := x.m.pods[uid]; p != nil {
		seen := p.seen
		if p.where == StageBound {
			seen.Node = p.node
		}
		return seen
	}
	return Sighting{UID: uid, Name: string(uid), Rank: int(uid[1]-'0')%4 - 1}
}

// in returns the pods in the stages, in the order of their UIDs.
func (x *machine) in(stages ...Stage) []ledger.PodUID {
	var pods []ledger.PodUID
	for _, uid := range x.uids {
		if p := x.m.pods[uid]; p != nil && slices.Contains(stages, p.where) {
			pods = append(pods, uid)
		}
	}
	return pods
}

// arrive brings all pods that do not exist, or one of them, gated or not, or takes a gate away.
func (x *machine) arrive(t *rapid.T) {
	all := rapid.Bool().Draw(t, "all")
	one := x.pod(t)
	for _, uid := range x.uids {
		if p := x.m.pods[uid]; all && (p == nil || p.where == StageGated) || uid == one {
			seen := x.sighting(uid)
			seen.Gated = x.once(t, 8)
			x.do(t, MemberSeen{seen})
		}
	}
}

// sight shows anything of a pod, mostly of one that is bound.
func (x *machine) sight(t *rapid.T) {
	uid := x.pod(t)
	if bound := x.in(StageBound); len(bound) > 0 && !x.once(t, 5) {
		uid = rapid.SampledFrom(bound).Draw(t, "bound")
	}
	seen := x.sighting(uid)
	if seen.Node == "" && x.once(t, 6) {
		seen.Node = x.node(t)
	}
	switch rapid.IntRange(0, 6).Draw(t, "what") {
	case 0:
		seen.Terminating = true
	case 1:
		seen.Failed = true
	case 2:
		seen.Succeeded = true
	case 3:
		seen.NodeLost = !seen.NodeLost
	default:
		seen.Running = true
	}
	x.do(t, MemberSeen{seen})
}

// goneAway deletes a pod; one that succeeded or failed rather than others.
func (x *machine) goneAway(t *rapid.T) {
	uid := x.pod(t)
	if ended := x.in(StageSucceeded, StageFailed); len(ended) > 0 && !x.once(t, 3) {
		uid = rapid.SampledFrom(ended).Draw(t, "ended")
	}
	x.do(t, MemberGone{uid})
	i := slices.Index(x.uids, uid) // its UID never comes back
	x.uids[i] = ledger.PodUID(fmt.Sprintf("p%d-%d", i, x.deleted))
	x.deleted++
}

// try has a pod ask for a plan, and plans, mostly with success.
func (x *machine) try(t *rapid.T) {
	uid := x.pod(t)
	if pending := x.in(StagePending); len(pending) > 0 {
		uid = rapid.SampledFrom(pending).Draw(t, "pending")
	}
	want := x.m.verdict(uid)
	v := x.s.Admit(uid, x.m.now)
	if v.Kind != want {
		t.Fatalf("%s is told %s, want %s; %s", uid, v.Kind, want, x.m)
	}
	if v.Kind != VerdictPlan {
		return
	}
	x.m.curedSinceAsked, x.m.unheeded = false, false
	if x.once(t, 6) {
		x.stray(t)
	}
	if x.once(t, 4) {
		x.do(t, PlanFailed{"nothing fits"})
		return
	}
	if x.m.planOn {
		x.met["replan"]++
	}
	x.plans++
	made := PlanMade{ID: fmt.Sprintf("plan-%d", x.plans)}
	for _, c := range rapid.Permutation(v.Candidates).Draw(t, "members")[:v.Need] {
		made.Members = append(made.Members, Placed{c, x.node(t)})
	}
	x.do(t, made)
}

// cycle takes planned members through their cycles; most get through.
func (x *machine) cycle(t *rapid.T) {
	planned := x.in(StagePlanned)
	if len(planned) == 0 && x.m.alone() {
		planned = x.in(StagePending)
	}
	if !x.once(t, 3) && len(planned) > 0 {
		planned = planned[:1]
	}
	for _, uid := range planned {
		if p := x.m.pods[uid]; p == nil || p.where != StagePlanned && p.where != StagePending {
			continue
		}
		node := x.m.pods[uid].node
		if node == "" {
			node = x.node(t)
		}
		switch rapid.IntRange(0, 11).Draw(t, "fate") {
		case 0:
			x.do(t, MemberRefused{uid, node, "no"})
		case 1:
			x.do(t, MemberUnreserved{uid, "no"})
		default:
			x.do(t, MemberReserved{uid, node})
		}
	}
}

// finish ends the binds on their way, most of them well, and the cycles of those that were rejected.
func (x *machine) finish(t *rapid.T) {
	for _, uid := range x.in(StageAdmitted, StageLeaving) {
		p := x.m.pods[uid]
		switch {
		case p == nil || x.once(t, 4):
		case p.where == StageLeaving || x.once(t, 8):
			x.do(t, MemberUnreserved{uid, "no"})
		case p.where == StageAdmitted:
			x.do(t, MemberBound{uid, p.node})
		}
	}
}

// stray is any event at any time.
func (x *machine) stray(t *rapid.T) {
	uid, node := x.pod(t), x.node(t)
	switch rapid.IntRange(0, 9).Draw(t, "event") {
	case 0:
		x.do(t, MemberReserved{uid, node})
	case 1:
		x.do(t, MemberUnreserved{uid, "stray"})
	case 2:
		x.do(t, MemberBound{uid, node})
	case 3:
		x.do(t, MemberRefused{uid, rapid.SampledFrom([]ledger.NodeName{"", node}).Draw(t, "by"), "stray"})
	case 4:
		x.do(t, NodeGone{node})
	case 5:
		x.do(t, PlanFailed{"stray"})
	case 6:
		x.do(t, PlanMade{"stray", []Placed{{uid, node}, {x.pod(t), node}}})
	case 7:
		x.do(t, MemberSeen{Sighting{UID: uid, Name: string(uid), Rank: -1}})
	case 8:
		x.do(t, Urgent{})
	default:
		x.do(t, Cured{})
	}
}

func (x *machine) group(t *rapid.T) {
	if x.once(t, 30) {
		x.do(t, GroupGone{})
		return
	}
	if x.once(t, 4) {
		x.do(t, SpecChanged{drawSpec(t)})
	}
}

// pass lets time pass, mostly to where a Tick is due.
func (x *machine) pass(t *rapid.T) {
	to := x.m.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond)
	if next, ok := x.s.Next(); ok && rapid.Bool().Draw(t, "due") && next.After(x.m.now) {
		to = next
	}
	x.m.now = to
	x.do(t, Tick{})
	if next, ok := x.s.Next(); ok && !next.After(x.m.now) {
		t.Fatalf("a Tick at %s is followed by one at %s", x.m.now.Sub(epoch), next.Sub(epoch))
	}
}

// drain ends every cycle that is on its way and lets an hour pass: then nobody may wait at Permit or be held.
func (x *machine) drain(t *rapid.T) {
	for range 200 {
		for _, uid := range x.in(StageLeaving) {
			x.do(t, MemberUnreserved{uid, "rejected"})
		}
		for _, uid := range x.in(StageAdmitted) {
			if x.m.pods[uid] != nil && x.m.pods[uid].where == StageAdmitted {
				x.do(t, MemberBound{uid, x.m.pods[uid].node})
			}
		}
		if next, ok := x.s.Next(); ok && next.After(x.m.now) {
			x.m.now = next
			x.do(t, Tick{})
		}
		if len(x.in(StageReserved, StagePlanned, StageLeaving, StageAdmitted)) == 0 {
			return
		}
	}
	if held := x.in(StagePlanned, StageReserved, StageLeaving, StageAdmitted); len(held) > 0 {
		t.Fatalf("%v are held for ever; %s", held, x.m)
	}
}
