package topologyspread

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/spread"
)

// PreFilter takes the counts of the pod's hard constraints. It skips pods without any, and refuses a gang whose constraints
// contradict the domain that it requires.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if p.resizes(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	constraints, err := p.constraintsOf(pod, v1.DoNotSchedule)
	if err != nil {
		return nil, fwk.AsStatus(fmt.Errorf("get constraints from pod: %w", err))
	}
	if len(constraints) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	own := p.gangOf(pod)
	own.countGangs(constraints)
	v := p.viewOf(ctx, state, pod, constraints, true, nodes)
	v.cards = p.cardsOf(pod)
	s := &filterState{constraints: constraints, trials: make([]spread.Trial, len(constraints)), affinity: v.affinity, cards: v.cards}
	counts := p.cache.Counts(v.key(), v.spec, v)
	for i, c := range counts {
		s.trials[i] = c.Try()
	}
	if own != nil {
		if reason := own.contradiction(pod, constraints, counts, nodes); reason != "" {
			return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason)
		}
		s.own = own.name
		s.leaveOutOwn()
	}
	state.Write(filterKey, s)
	return nil, nil
}

// resizes reports whether the pod runs and waits for its resize, so that its place is no question.
func (p *Plugin) resizes(pod *v1.Pod) bool {
	return p.features.EnableInPlacePodVerticalScalingSchedulerPreemption && resource.IsPodResizeDeferred(pod)
}

// leaveOutOwn judges the gang as if none of it were placed: with itself it counts as one wherever it goes.
func (s *filterState) leaveOutOwn() {
	for i := range s.constraints {
		if !s.constraints[i].gangs {
			continue
		}
		for _, domain := range s.trials[i].GroupDomains(s.own) {
			s.trials[i].Add(domain, -1, false)
		}
	}
}

// PreFilterExtensions returns the dry-run steps of preemption.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return p }

// AddPod puts a pod on a node for a dry run.
func (p *Plugin) AddPod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, toAdd fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.move(ctx, state, pod, toAdd.GetPod(), node, 1)
}

// RemovePod takes a pod from a node for a dry run.
func (p *Plugin) RemovePod(ctx context.Context, state fwk.CycleState, pod *v1.Pod, toRemove fwk.PodInfo, node fwk.NodeInfo) *fwk.Status {
	return p.move(ctx, state, pod, toRemove.GetPod(), node, -1)
}

// move changes the counts for a pod that comes to a node or leaves it. As in tree, a pod that ends is taken away although it was
// not counted, and an empty selector matches here.
func (p *Plugin) move(ctx context.Context, state fwk.CycleState, pod, moved *v1.Pod, info fwk.NodeInfo, by int) *fwk.Status {
	s, err := stateOf[*filterState](state, filterKey)
	if err != nil {
		return fwk.AsStatus(err)
	}
	node := info.Node()
	if node == nil || moved.Namespace != pod.Namespace || !hasKeys(node.Labels, s.constraints) {
		return nil
	}
	logger := klog.FromContext(ctx)
	for i := range s.constraints {
		c := &s.constraints[i]
		if !c.selector.Matches(labels.Set(moved.Labels)) || !p.includes(logger, c, pod, node, &s.affinity) {
			continue
		}
		domain := node.Labels[c.key]
		if n := s.movedUnits(i, domain, moved, by); n != 0 {
			s.trials[i].Add(domain, n, s.cards.on(p.engine, info))
		}
	}
	return nil
}

// movedUnits is how much the count of a domain changes with a pod. Where gangs are counted, that is for the first of its gang
// that comes and the last that leaves; the pod's own gang is not in the counts.
func (s *filterState) movedUnits(i int, domain string, moved *v1.Pod, by int) int {
	gang := gangName(moved)
	if !s.constraints[i].gangs || gang == "" {
		return by
	}
	if gang == s.own {
		return 0
	}
	at := gangPlace{i, domain, gang}
	before := s.trials[i].GroupPods(domain, gang) + s.moved[at]
	if s.moved == nil {
		s.moved = map[gangPlace]int{}
	}
	s.moved[at] += by
	switch after := before + by; {
	case before <= 0 && after > 0:
		return 1
	case before > 0 && after <= 0:
		return -1
	}
	return 0
}
