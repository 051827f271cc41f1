package coscheduling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

// maxDetours is how many plans are made again for promises on the nodes that they would use, before all nodes are asked.
const maxDetours = 3

// plan finds places for the members and takes their cards. It returns nil, nil when it did; a status when the member's cycle
// ends here; an error alone when the cluster or the gang changed under it, so that another try may succeed.
func (p *Plugin) plan(ctx context.Context, state fwk.CycleState, pod *v1.Pod, a *book.Admission, nodes []fwk.NodeInfo) (*fwk.Status, error) {
	start, span := p.engine.Clock().Now(), p.engine.Span(ctx, engine.Begin(state), tracing.SpanPlan)
	result, status, err := p.makePlan(ctx, a, nodes)
	metrics.GangPlanSeconds.Observe(p.engine.Clock().Since(start).Seconds())
	metrics.GangPlans.WithLabelValues(result).Inc()
	if span.On() {
		d := tracing.Details{Namespace: pod.Namespace, Pod: pod.Name, Gang: a.Group.String(), Outcome: result, Err: err}
		if planned := p.book.Planned(ledger.PodUID(pod.UID)); planned != nil {
			d.Plan = planned.ID
		}
		if status != nil {
			d.Err = status.AsError()
		}
		span.End(d)
	}
	return status, err
}

// makePlan returns the result as metrics name it, and what plan returns.
func (p *Plugin) makePlan(ctx context.Context, a *book.Admission, nodes []fwk.NodeInfo) (string, *fwk.Status, error) {
	roles, fit, at, err := p.rolesOf(a.Candidates, a.Need)
	if err != nil {
		return metrics.PlanRefused, p.refuse(a, nil, fmt.Sprintf("gang %s: %v", a.Group, err)), nil
	}
	a.Candidates = fit
	made, rejection, problem, err := p.search(a, roles, at, nodes)
	switch {
	case err != nil:
		p.book.PlanFailed(a.Group, err.Error())
		return metrics.PlanError, fwk.AsStatus(fmt.Errorf("plan gang %s: %w", a.Group, err)), nil
	case rejection != "":
		return metrics.PlanRefused, p.refuse(a, problem, rejection+p.terminating(problem)), nil
	}
	err = p.book.Take(a.Group, places(a, made))
	var conflict *ledger.ConflictError
	switch {
	case err == nil:
		klog.FromContext(ctx).V(2).Info("Planned gang", "podGroup", a.Group, "pods", len(made.Assignments), "nodes", made.Nodes)
		return metrics.PlanMade, nil, nil
	case errors.As(err, &conflict), errors.Is(err, book.ErrChanged), errors.Is(err, ledger.ErrReleased):
		return metrics.PlanConflict, nil, fmt.Errorf("plan gang %s: %w", a.Group, err)
	}
	p.book.PlanFailed(a.Group, err.Error())
	return metrics.PlanError, fwk.AsStatus(fmt.Errorf("plan gang %s: %w", a.Group, err)), nil
}

// refuse ends the cycle of a member whose gang does not fit. problem is nil where the gang could not even be asked for.
func (p *Plugin) refuse(a *book.Admission, problem *placement.Problem, reason string) *fwk.Status {
	if p.book.PlanFailed(a.Group, reason) && problem != nil {
		p.book.GiveTurn(a.Group, priorityOf(a), p.gather(problem))
	}
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
}

// priorityOf is the lowest priority of the members: a turn must not hold back anybody who goes before one of them.
func priorityOf(a *book.Admission) int32 {
	lowest := corev1helpers.PodPriority(a.Candidates[0].Pod)
	for _, c := range a.Candidates {
		lowest = min(lowest, corev1helpers.PodPriority(c.Pod))
	}
	return lowest
}

// search looks for places. The rejection is a sentence, "" where places were found. Before it answers no, it has the ledger
// catch up with the scheduler's own cache, which may have heard of the end of a pod first.
func (p *Plugin) search(a *book.Admission, roles []*role, at []int, infos []fwk.NodeInfo) (*placement.Plan, string, *placement.Problem, error) {
	infos = withNodes(infos)
	p.mu.Lock()
	defer p.mu.Unlock()
	for round := 0; ; round++ {
		s, problem, short := p.problem(a, roles, at, infos)
		if short == "" {
			made, rejection, err := p.planAround(s, problem)
			if err != nil || rejection == nil {
				return made, "", problem, err
			}
			short = rejection.String()
		} else {
			s.honourAll()
		}
		if round > 0 || !p.catchUp(infos) {
			return nil, short, problem, nil
		}
	}
}

// planAround plans the gang around what nominated pods were promised. Few nodes have any, so a plan is made first, and made
// again where it would use what is promised.
func (p *Plugin) planAround(s *survey, problem *placement.Problem) (*placement.Plan, *placement.Rejection, error) {
	for try := 1; ; try++ {
		made, rejection, err := p.planner.Plan(problem)
		if err != nil {
			return nil, nil, err
		}
		if made == nil || try > maxDetours {
			if !s.honourAll() {
				return made, rejection, nil
			}
			continue
		}
		if changed, err := s.honourPlan(made); err != nil || !changed {
			return made, nil, err
		}
	}
}

// terminating says whether cards that the gang may use come free by themselves, "" if not.
func (p *Plugin) terminating(problem *placement.Problem) string {
	observer := p.engine.Observer()
	if observer == nil || problem == nil {
		return ""
	}
	for i := range problem.Nodes {
		if n := &problem.Nodes[i]; n.Roles != 0 && observer.Terminating(string(n.Name)) {
			return engine.TerminatingNote
		}
	}
	return ""
}

// withNodes leaves out entries of nodes that are gone and still have pods.
func withNodes(infos []fwk.NodeInfo) []fwk.NodeInfo {
	if !slices.ContainsFunc(infos, func(i fwk.NodeInfo) bool { return i.Node() == nil }) {
		return infos
	}
	return slices.DeleteFunc(slices.Clone(infos), func(i fwk.NodeInfo) bool { return i.Node() == nil })
}

// avoids reports whether the node's kubelet lately failed GPU pods.
func (p *Plugin) avoids(node string) bool {
	observer := p.engine.Observer()
	return observer != nil && observer.Avoided(node)
}

// catchUp reports whether the ledger has learned of anything new.
func (p *Plugin) catchUp(infos []fwk.NodeInfo) bool {
	observer := p.engine.Observer()
	if observer == nil {
		return false
	}
	changed := false
	for _, info := range infos {
		if observer.CatchUp(info.Node().Name, info.GetGeneration()) {
			changed = true
		}
	}
	return changed
}

// problem describes the gang and the cluster, whose nodes are those of the survey. The last result says what the PodGroup's
// minResources lack, "" for nothing.
func (p *Plugin) problem(a *book.Admission, roles []*role, at []int, infos []fwk.NodeInfo) (*survey, *placement.Problem, string) {
	s := &survey{
		known: p.knownFor(roles), plugin: p, a: a, turn: p.book.Withheld(), lead: a.Candidates[0].Pod, priority: priorityOf(a),
		stale: p.engine.StaleNodes(), interconnect: a.Wish.Interconnect,
	}
	s.load(p.book.Coming())
	f, allowCrossZone := p.engine.Fabric(), true
	if args := p.engine.FabricArgs(); args != nil {
		allowCrossZone = args.AllowCrossZone
	}
	asked, fault := wishOf(f, a, roles)
	problem := &placement.Problem{
		Group: a.Group.String(), Resources: s.d.names(roles), Bars: barNames, Need: a.Need, Nodes: s.survey(f, infos),
		Roles: make([]placement.Role, len(roles)), Members: make([]placement.Member, len(a.Candidates)),
	}
	for i, r := range roles {
		problem.Roles[i] = placement.Role{Name: r.name, Request: r.request, Needs: s.d.need(roles, i)}
	}
	for i, c := range a.Candidates {
		problem.Members[i] = placement.Member{UID: ledger.PodUID(c.Pod.UID), Role: at[i], Rank: c.Rank}
	}
	problem.Fabric, problem.Placed = f, p.fixed(f, a.Mates, roles)
	asked.describe(problem, allowCrossZone)
	if fault != "" {
		return s, problem, fault
	}
	short := s.lacks(infos)
	return s, problem, short
}

// lacks compares the PodGroup's minResources with what is free on the nodes that admit any role, and what the gang's own
// members already have. A node that is promised as a whole to a nominated pod counts for nothing; no more nodes are asked than
// make enough.
func (s *survey) lacks(infos []fwk.NodeInfo) string {
	for _, name := range slices.Sorted(maps.Keys(s.a.MinResources)) {
		have, want := int64(0), s.a.MinResources[name]
		for _, m := range s.a.Mates {
			have += min(amountOf(engine.NeedsOf(m.Pod), name), math.MaxInt64-have)
		}
		for i := 0; i < len(infos) && have < want; i++ {
			if s.honour(i); s.nodes[i].Roles != 0 {
				free := max(0, amountOf(infos[i].GetAllocatable(), name)-amountOf(infos[i].GetRequested(), name))
				have += min(free, math.MaxInt64-have)
			}
		}
		if have < want {
			return fmt.Sprintf("gang %s: minResources asks for %s of %s, %s are free for it or its own", s.a.Group, amountText(name, want), name, amountText(name, have))
		}
	}
	return ""
}

func amountOf(r fwk.Resource, name v1.ResourceName) int64 {
	switch name {
	case v1.ResourceCPU:
		return r.GetMilliCPU()
	case v1.ResourceMemory:
		return r.GetMemory()
	case v1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	default:
		return r.GetScalarResources()[name]
	}
}

func amountText(name v1.ResourceName, n int64) string {
	if name == v1.ResourceCPU {
		return fmt.Sprintf("%dm", n)
	}
	return fmt.Sprint(n)
}

// places are the parts of a plan as the book takes them.
func places(a *book.Admission, made *placement.Plan) []book.Place {
	pods := make(map[ledger.PodUID]*v1.Pod, len(a.Candidates))
	for _, c := range a.Candidates {
		pods[ledger.PodUID(c.Pod.UID)] = c.Pod
	}
	out := make([]book.Place, len(made.Assignments))
	for i := range made.Assignments {
		m := &made.Assignments[i]
		out[i] = book.Place{Pod: pods[m.Pod], Planned: book.Planned{Node: m.Node, Choice: m.Choice, Topology: m.Topology, Rank: m.Rank}}
	}
	return out
}

// gather chooses the nodes that are kept for a gang which failed often: those with the most room for its members now, and
// as many as would hold it if they were empty. It is nil if even the whole cluster would not.
func (p *Plugin) gather(problem *placement.Problem) map[ledger.NodeName]bool {
	want := make([]int, len(problem.Roles))
	for _, m := range problem.Members[:problem.Need] {
		want[m.Role]++
	}
	chosen := map[ledger.NodeName]bool{}
	for r := range problem.Roles {
		role := &problem.Roles[r]
		type offer struct {
			node *placement.Node
			now  int
		}
		var offers []offer
		for i := range problem.Nodes {
			if n := &problem.Nodes[i]; n.Roles&(1<<r) != 0 && !chosen[n.Name] {
				offers = append(offers, offer{n, placement.Capacity(p.engine.Chooser(), n, role, false, want[r])})
			}
		}
		slices.SortFunc(offers, func(x, y offer) int {
			return cmp.Or(cmp.Compare(y.now, x.now), cmp.Compare(x.node.Name, y.node.Name))
		})
		for _, o := range offers {
			if want[r] <= 0 {
				break
			}
			if n := placement.Capacity(p.engine.Chooser(), o.node, role, true, want[r]); n > 0 {
				chosen[o.node.Name] = true
				want[r] -= n
			}
		}
		if want[r] > 0 {
			return nil
		}
	}
	return chosen
}
