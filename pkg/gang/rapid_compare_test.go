package gang

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// do takes an event through both and compares.
func (x *machine) do(t *rapid.T, e Event) {
	*x.steps++
	failures, expected, before := x.m.failures, x.s.Clone(), x.s.Clone()
	s, actions := Decide(x.s, e, x.m.now)
	x.s = s
	if r, ok := e.(MemberReserved); ok {
		x.completes(t, before, r)
	}
	_, again := Decide(expected, e, x.m.now)
	if diff := cmp.Diff(again, actions); diff != "" {
		t.Fatalf("the same state and event, other actions (-first +again):\n%s", diff)
	}
	x.meet(e, actions)
	if wrong := x.m.step(e, actions); wrong != "" {
		t.Fatalf("%#v -> %+v: %s; %s", e, actions, wrong, x.m)
	}
	if x.m.failures > failures {
		x.met["failure"]++
	}
	if failures > 0 && x.m.failures == 0 {
		x.met["recovered"]++
	}
	x.compare(t, e)
}

// completes holds that Completes foretold whether the gang would be let go, and for how many others.
func (x *machine) completes(t *rapid.T, before *State, e MemberReserved) {
	waiting, yes := before.Completes(e.Pod)
	was, _ := before.Stage(e.Pod)
	is, _ := x.s.Stage(e.Pod)
	switch let := was == StagePlanned && is == StageAdmitted; {
	case let && !yes:
		t.Fatalf("%#v let the gang go, which was not foretold", e)
	case yes && !let && before.members[e.Pod].node == e.Node:
		t.Fatalf("%#v was to let the gang go; the pod is %s", e, is)
	case yes && waiting != before.count(StageReserved):
		t.Fatalf("%#v: %d are said to wait, %d do", e, waiting, before.count(StageReserved))
	case yes && let && waiting > 0:
		x.met["completes"]++
	}
}

func (x *machine) meet(e Event, actions []Action) {
	x.met[x.s.Phase().String()]++
	for _, a := range actions {
		switch a := a.(type) {
		case Allow:
			x.met["allow"]++
			if r, ok := e.(MemberReserved); !ok && len(a.Pods) > 1 {
				x.met["followers"]++
			} else if ok && len(x.in(StageReserved)) > 0 && a.Pods[0] == r.Pod {
				x.met["canary"]++
			} else if ok && x.m.alone() {
				x.met["alone"]++
			}
		case Reject:
			x.met["reject"]++
		case Release:
			x.met["release"]++
			if _, ok := e.(PlanMade); ok {
				x.met["late plan"]++
			}
		case Activate:
			x.met["activate"]++
		case Evict:
			x.met["evict"]++
		}
	}
}

// compare holds everything that State shows against the model.
func (x *machine) compare(t *rapid.T, e Event) {
	t.Helper()
	if err := x.s.Check(); err != nil {
		t.Fatalf("after %#v: %v", e, err)
	}
	if diff := cmp.Diff(x.m.expected(), x.s.Counts()); diff != "" {
		t.Fatalf("after %#v, counts (-want +got):\n%s", e, diff)
	}
	if x.s.Failures() != x.m.failures || !x.s.RetryAt().Equal(x.m.retryAt) {
		t.Fatalf("after %#v: %d failures, again at %s; want %d at %s", e, x.s.Failures(), x.s.RetryAt(), x.m.failures, x.m.retryAt)
	}
	excluded := []ledger.NodeName{}
	for node, until := range x.m.excluded {
		if x.m.now.Before(until) {
			excluded = append(excluded, node)
		}
	}
	slices.Sort(excluded)
	if diff := cmp.Diff(excluded, x.s.Excluded(x.m.now), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("after %#v, excluded (-want +got):\n%s", e, diff)
	}
	lead, ok := x.s.Lead()
	if want := x.candidates(); ok != (len(want) > 0) || ok && lead != want[0] {
		t.Fatalf("after %#v: the lead is %q (%v) of %v", e, lead, ok, want)
	}
	if diff := cmp.Diff(x.aliveOn(), x.s.Nodes(), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("after %#v, nodes (-want +got):\n%s", e, diff)
	}
	probe := x.s.Clone()
	for _, uid := range x.uids {
		x.compareMember(t, probe, uid, e)
	}
	if reason, waits := x.s.Reason(), x.m.unheeded && !x.m.planOn; waits && !x.m.mayPlan() && !x.m.alone() && reason == "" {
		t.Fatalf("after %#v: it waits and does not say why; %s", e, x.m)
	}
}

func (x *machine) compareMember(t *rapid.T, probe *State, uid ledger.PodUID, e Event) {
	t.Helper()
	p := x.m.pods[uid]
	stage, known := x.s.Stage(uid)
	if known != (p != nil) || known && stage != p.where {
		t.Fatalf("after %#v: %s is %s (known: %v), want %+v", e, uid, stage, known, p)
	}
	v := probe.Admit(uid, x.m.now)
	if want := x.m.verdict(uid); v.Kind != want {
		t.Fatalf("after %#v: %s is told %s %q, want %s; %s", e, uid, v.Kind, v.Reason, want, x.m)
	}
	switch v.Kind {
	case VerdictPlan:
		if diff := cmp.Diff(x.candidates(), v.Candidates); diff != "" || v.Need != x.m.need() {
			t.Fatalf("after %#v: plan %d, want %d, candidates (-want +got):\n%s", e, v.Need, x.m.need(), diff)
		}
	case VerdictPlanned:
		if v.Node != p.node {
			t.Fatalf("after %#v: %s is planned on %s, want %s", e, uid, v.Node, p.node)
		}
	case VerdictWait:
		if v.Reason == "" {
			t.Fatalf("after %#v: %s waits for no reason", e, uid)
		}
	case VerdictAlone:
	}
	if p != nil && p.where == StagePending {
		if reason, ok := x.s.Enqueue(uid); ok != x.m.mayEnqueue() || ok != (reason == "") {
			t.Fatalf("after %#v: %s may enter: %v %q, want %v; %s", e, uid, ok, reason, x.m.mayEnqueue(), x.m)
		}
	}
}

// aliveOn are the nodes in their order that have an alive member.
func (x *machine) aliveOn() []ledger.NodeName {
	var nodes []ledger.NodeName
	for _, node := range x.nodes {
		if x.m.number(func(p *pod) bool { return p.isAlive() && p.node == node }) > 0 {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// candidates are the pending pods by rank, those without one last, then by name.
func (x *machine) candidates() []ledger.PodUID {
	pods := x.in(StagePending)
	slices.SortFunc(pods, func(a, b ledger.PodUID) int {
		key := func(uid ledger.PodUID) string {
			rank := x.m.pods[uid].seen.Rank
			if rank < 0 {
				rank = 9
			}
			return fmt.Sprint(rank, " ", uid)
		}
		if key(a) < key(b) {
			return -1
		}
		return 1
	})
	return pods
}
