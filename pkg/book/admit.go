package book

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
)

// ErrChanged means that the gang is not any more what the plan was made for.
var ErrChanged = errors.New("the gang has changed while it was planned")

// Admission is the answer to a member that comes to be scheduled.
type Admission struct {
	gang.Verdict
	Group GroupKey
	// Created is when the PodGroup was created.
	Created time.Time
	// The rest is set for VerdictPlan. Candidates are the pods that may be planned, preferred first, at least Need.
	Candidates []Candidate
	// Mates are the members that run or are on their way: their nodes are preferred, and what they ask for counts towards
	// MinResources.
	Mates []Mate
	// Excluded are nodes that refused a member lately.
	Excluded map[ledger.NodeName]bool
	// Wish is what the PodGroup asks of the fabric.
	Wish podgroup.Wish
	// MinResources is what the PodGroup wants to be there for it as a whole, CPU in milli.
	MinResources map[v1.ResourceName]int64
}

// Candidate is a member to be planned; Rank is -1 if it has none.
type Candidate struct {
	Pod  *v1.Pod
	Rank int
}

// Mate is a member with a node; Rank is -1 if it has none.
type Mate struct {
	Pod  *v1.Pod
	Node ledger.NodeName
	Rank int
}

// Enqueue says whether a pod of a group may enter the active queue, else why not. It is cheap, and may be called with the
// scheduling queue's lock held.
func (b *Book) Enqueue(pod *v1.Pod) (string, bool) {
	key, named := KeyOf(pod)
	if !named {
		return "", true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	g, reason := b.enter(key, pod)
	switch {
	case reason != "":
		return reason, false
	case g.state == nil:
		return "", true
	}
	return g.state.Enqueue(ledger.PodUID(pod.UID))
}

// enter makes sure that the book has heard of a pod that the queue shows, and says what keeps its group from being looked
// at. The caller holds mu.
func (b *Book) enter(key GroupKey, pod *v1.Pod) (*group, string) {
	if b.members[ledger.PodUID(pod.UID)] == nil {
		current, err := b.pods.Pods(pod.Namespace).Get(pod.Name)
		if err != nil || current.UID != pod.UID {
			return nil, "the pod is gone"
		}
		if is, still := KeyOf(current); !still || is != key {
			return nil, "the pod's group has changed"
		}
		b.see(key, current)
	}
	g := b.group(key)
	reason := ""
	switch {
	case !g.known:
		reason = g.unknown()
	case g.facts.Invalid != "":
		reason = g.invalid()
	}
	return g, reason
}

// Admit says what is to be done with a member that comes to be scheduled.
func (b *Book) Admit(pod *v1.Pod) Admission {
	key, named := KeyOf(pod)
	if !named {
		return Admission{Verdict: gang.Verdict{Kind: gang.VerdictAlone}}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	uid, now := ledger.PodUID(pod.UID), b.clock.Now()
	g, reason := b.enter(key, pod)
	switch {
	case reason != "":
		return Admission{Group: key, Verdict: gang.Verdict{Kind: gang.VerdictWait, Reason: reason}}
	case g.state == nil:
		return Admission{Group: key, Verdict: gang.Verdict{Kind: gang.VerdictAlone}}
	case b.yields(g, uid, now):
		return Admission{Group: key, Verdict: gang.Verdict{Kind: gang.VerdictWait, Reason: "gang " + key.String() + ": gangs of higher priority are tried first"}}
	}
	a := Admission{Group: key, Created: g.facts.Created, Verdict: g.state.Admit(uid, now)}
	switch {
	case a.Kind == gang.VerdictPlan:
		b.describe(g, &a)
	case a.Kind == gang.VerdictWait && now.Before(g.state.RetryAt()):
		// Of what happened while this pod stood in the active queue MayCure was not told: it may have been the cure.
		b.apply(g, gang.Cured{})
	}
	return a
}

// describe fills in what a planner has to know. The caller holds mu.
func (b *Book) describe(g *group, a *Admission) {
	for _, uid := range a.Verdict.Candidates {
		m := g.members[uid]
		if _, stage, held := b.ledger.Holding(uid); held && stage != ledger.StageAssumed {
			// A bind of unknown outcome: it is not known whether the member needs a place.
			a.Verdict = gang.Verdict{Kind: gang.VerdictWait, Reason: fmt.Sprintf("gang %s: it is not known yet whether the bind of pod %s was committed", g.key, m.pod.Name)}
			return
		}
		a.Candidates = append(a.Candidates, Candidate{Pod: m.pod, Rank: m.sighting.Rank})
	}
	for _, m := range g.members {
		if m.node != "" {
			a.Mates = append(a.Mates, Mate{m.pod, m.node, m.rank()})
		}
	}
	slices.SortFunc(a.Mates, func(x, y Mate) int { return cmp.Compare(x.Pod.UID, y.Pod.UID) })
	for _, node := range g.state.Excluded(b.clock.Now()) {
		if a.Excluded == nil {
			a.Excluded = map[ledger.NodeName]bool{}
		}
		a.Excluded[node] = true
	}
	a.MinResources, a.Wish = g.facts.MinResources, g.facts.Wish
}

// Place is one member's part of a plan.
type Place struct {
	Pod *v1.Pod
	// Planned is what the member gets; Take fills in ID and Gang.
	Planned Planned
}

// Take holds the cards of all places, or of none, and makes the plan that of the gang. The error wraps ErrChanged, or is
// what the ledger said.
func (b *Book) Take(key GroupKey, places []Place) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	g := b.groups[key]
	if g == nil || g.state == nil {
		return fmt.Errorf("%w: the PodGroup is gone", ErrChanged)
	}
	holdings := make([]ledger.Holding, 0, len(places))
	for i := range places {
		p := &places[i]
		uid := ledger.PodUID(p.Pod.UID)
		if stage, ok := g.state.Stage(uid); !ok || stage != gang.StagePending {
			return fmt.Errorf("%w: pod %s is not waiting any more", ErrChanged, p.Pod.Name)
		}
		if b.lost[p.Planned.Node] {
			return fmt.Errorf("%w: node %s is lost", ErrChanged, p.Planned.Node)
		}
		if len(p.Planned.Choice.Cards) > 0 {
			holdings = append(holdings, p.Planned.Holding(p.Pod))
		}
	}
	if err := b.ledger.AssumeAll(holdings); err != nil {
		return err
	}
	b.plans++
	id := fmt.Sprintf("%s-%d", g.facts.UID, b.plans)
	made := gang.PlanMade{ID: id}
	for i := range places {
		uid := ledger.PodUID(places[i].Pod.UID)
		m := g.members[uid]
		planned := places[i].Planned
		planned.ID, planned.Gang = id, key
		m.plan, m.given = &planned, planned.Rank
		b.coming[uid] = m
		b.place(m)
		made.Members = append(made.Members, gang.Placed{Pod: uid, Node: planned.Node})
	}
	b.endTurn(key)
	b.apply(g, made)
	return nil
}

// Holding is what the plan takes in the ledger for the pod.
func (p *Planned) Holding(pod *v1.Pod) ledger.Holding {
	return ledger.Holding{UID: ledger.PodUID(pod.UID), Pod: pod.Namespace + "/" + pod.Name, Node: p.Node, Cards: p.Choice.Cards}
}

// Planned returns what is planned for a pod, nil if nothing.
func (b *Book) Planned(uid ledger.PodUID) *Planned {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.members[uid]; m != nil {
		return m.plan
	}
	return nil
}

// Load is what a member will use of a node that the scheduler's cache does not know yet.
type Load struct {
	Pod  *v1.Pod
	Node ledger.NodeName
}

// Coming lists the members that are planned and have not been reserved.
func (b *Book) Coming() []Load {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make([]Load, 0, len(b.coming))
	for _, m := range b.coming {
		if m.plan != nil {
			out = append(out, Load{m.pod, m.plan.Node})
		}
	}
	slices.SortFunc(out, func(x, y Load) int { return cmp.Compare(x.Pod.UID, y.Pod.UID) })
	return out
}
