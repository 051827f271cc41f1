package nccltopology

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// shortlistLength is how many nodes a cycle looks at: enough for the scores of other plugins to have a choice, which weigh less than
	// the two that the list is made by.
	shortlistLength = 8
	// shortlistLeast is with how many nodes the search for more ends: some of them may turn out not to serve.
	shortlistLeast = 4
	// shortlistGrowth is by how much a list grows that has too few nodes, shortlistLimit where the search ends, and all nodes are
	// looked at if it has found none.
	shortlistGrowth, shortlistLimit = 8, 512
	// shortlistRefused is of how many nodes in front of the list the filters may say no before all nodes are looked at.
	shortlistRefused = 32
)

// PreFilter has a cycle look at the few nodes of the whole cluster that are worth the most to the pod, in place of a sample in which all
// plugins look at hundreds. Nodes are taken in the order of placement.Shortlist, by the weights of the profile, if they serve as far as
// this plugin can say, and the first of them if the filters say so too that can be asked (passes).
//
// That order is one among all nodes, also those that do not serve: where the fastest rings are on such ones, the others' rings differ
// less in it than in the scores of a cycle.
//
// All nodes are left to a pod for which others have the last word (wide), and where none is found. If none of the few serves after
// all, PostFilter has the pod tried again on all nodes.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if state.IsPodGroupSchedulingCycle() || !p.mayName(ctx) || p.wide(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	asked, err := p.engine.RequestOf(pod)
	if err != nil || asked == nil {
		return nil, fwk.NewStatus(fwk.Skip) // GPUTopology refuses a request that cannot be read
	}
	f := p.engine.Fabric()
	if f == nil || p.engine.Hinted() {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	few := p.shortlist(ctx, state, f, asked, p.askerOf(pod))
	if len(few) == 0 {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	metrics.Shortlists.WithLabelValues(metrics.ShortlistMade).Inc()
	state.Write(shortlistKey, &shortlisted{})
	return &fwk.PreFilterResult{NodeNames: few}, nil
}

// PreFilterExtensions returns nil: what pods of a node come and go changes no answer.
func (*Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// shortlist returns the names of the best nodes that serve; none where it is not worth to look for them, or where none serves.
func (p *Plugin) shortlist(ctx context.Context, state fwk.CycleState, f *topology.Fabric, asked *allocate.Request, a *asker) sets.Set[string] {
	plain, _ := asked.Plain()
	occupancy, nodes := p.engine.Occupancy(f), p.handle.SnapshotSharedLister().NodeInfos()
	few := &few{names: sets.New[string]()}
	for length, done := shortlistLength, 0; ; length *= shortlistGrowth {
		best, known := p.lists.best(f, occupancy, asked, plain, length)
		if !known {
			return nil
		}
		for _, at := range best[min(done, len(best)):] {
			info, err := nodes.Get(f.Name(at))
			if err != nil || info.Node() == nil || !p.serves(a, info) {
				continue // the scheduler has not heard of the node yet, or not any more
			}
			if p.take(ctx, state, a.pod, info, few); few.failed || few.liked == shortlistLength {
				return few.names
			}
		}
		if few.liked >= shortlistLeast || len(best) < length || length >= shortlistLimit {
			return few.names
		}
		done = length
	}
}

// take puts a node that serves on the list, the first one if the filters let the pod onto it.
func (p *Plugin) take(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo, list *few) {
	if len(list.names) == 0 {
		ok, known := p.passes(ctx, state, pod, info)
		if !ok {
			list.refused++
			list.failed = !known || list.refused > shortlistRefused
			return
		}
	}
	list.add(info.Node(), pod.Spec.Tolerations)
}

// few are the nodes of a list so far.
type few struct {
	names sets.Set[string]
	// liked are those without a taint that says that others are preferred, disliked those with one: both have their places, so that
	// the plugin TaintToleration has the choice that it has on all nodes.
	liked, disliked int
	// refused are the nodes that filters kept off the empty list; failed says that it stays empty.
	refused int
	failed  bool
}

func (l *few) add(node *v1.Node, tolerations []v1.Toleration) {
	switch {
	case !engine.Discourages(node, tolerations):
		l.liked++
	case l.disliked == shortlistLength:
		return
	default:
		l.disliked++
	}
	l.names.Insert(node.Name)
}

// value is the grade and the seed of a node's free cards, as GPUTopology and this plugin score it.
func (p *Plugin) value(a *ledger.NodeGPUAllocation, asked *allocate.Request, plain int) (allocate.Grade, int64) {
	set, quality, ok := p.assess(a, asked, plain)
	if !ok {
		return allocate.Unfit, 0
	}
	return a.View.Grade(quality, p.spreads()), p.seed(pciProximity(a.Topology, set), nvlinkBandwidth(quality.Bottleneck))
}

// spreads reports whether GPUTopology spreads pods over nodes.
func (p *Plugin) spreads() bool {
	args := p.engine.Profile(p.handle.ProfileName())
	return args != nil && args.NodePacking == config.NodePackingSpread
}

// mayName reports whether the plugin may name nodes in its profile, and reads what the profile runs. PostFilter must stand before preemption: else
// a pod of which none of the few nodes serves would have others evicted from them.
func (p *Plugin) mayName(ctx context.Context) bool {
	p.profile.Do(func() {
		plugins := engine.PluginsOf(p.handle)
		if plugins == nil {
			return
		}
		own, preemption := engine.IndexOf(&plugins.PostFilter, Name), engine.IndexOf(&plugins.PostFilter, names.DefaultPreemption)
		if own < 0 || preemption >= 0 && preemption < own {
			klog.FromContext(ctx).Info("NCCLTopology is not listed in postFilter before DefaultPreemption, so every pod is looked at on all nodes", "profile", p.handle.ProfileName())
			return
		}
		for i := range plugins.Filter.Enabled {
			p.filters = append(p.filters, plugins.Filter.Enabled[i].Name)
		}
		p.lists.weights = placement.Weights{Own: weightOf(plugins, engine.CardsName), Domain: weightOf(plugins, Name)}
		p.names = p.lists.weights != placement.Weights{}
	})
	return p.names
}

// weightOf is the weight of a plugin's scores, 0 if none count.
func weightOf(plugins *schedconfig.Plugins, name string) int64 {
	if i := engine.IndexOf(&plugins.Score, name); i >= 0 {
		return int64(plugins.Score.Enabled[i].Weight)
	}
	return 0
}

// PostFilter has a pod of whose few nodes none served tried again on all nodes, from then on. It stands before preemption, and ends it:
// there may be room elsewhere.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if engine.ReadState[*shortlisted](state, shortlistKey) == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	metrics.Shortlists.WithLabelValues(metrics.ShortlistFailed).Inc()
	p.widened.add(pod)
	// While the pod's attempt ends, to activate it keeps it from being parked as unschedulable, and after that from backing off.
	again := func() {
		p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{klog.KObj(pod).String(): pod})
	}
	again()
	time.AfterFunc(engine.Settle, again)
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "none of the best nodes for its GPUs serves: all nodes are looked at next")
}

// EventsToRegister returns none: whom PostFilter sends back is tried again without an event.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }
