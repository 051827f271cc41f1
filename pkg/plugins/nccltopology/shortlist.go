package nccltopology

import (
	"context"

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
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// shortlistLength is how many nodes a cycle looks at: enough for the scores of other plugins to have a choice, which weigh less than
	// the two that the list is made by.
	shortlistLength = 8
	// shortlistLeast is with how many nodes the search for more ends: some of them may turn out not to serve.
	shortlistLeast = 4
	// shortlistGrowth is by how much a list grows that has too few nodes.
	shortlistGrowth = 8
	// maxWide is of how many pods it is remembered that none of their few nodes served. One that is forgotten is tried once more in vain.
	maxWide = 4096
)

// PreFilter has a cycle look at the few nodes of the whole cluster that are worth the most to the pod, in place of a sample in which all
// plugins look at hundreds. Nodes are taken in the order of placement.Shortlist if, as far as this plugin can say, they serve. It
// leaves all nodes to a pod for which others have the last word (wide), and where it finds none. If none of the few serves after all,
// PostFilter has the pod tried again on all nodes.
func (p *Plugin) PreFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if state.IsPodGroupSchedulingCycle() || !p.first(ctx) || p.wide(pod) {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	asked, err := p.engine.RequestOf(pod)
	if err != nil || asked == nil {
		return nil, fwk.NewStatus(fwk.Skip) // GPUTopology refuses a request that cannot be read
	}
	f := p.engine.Fabric()
	if f == nil || p.engine.Hinted() || p.engine.Gangs().Withheld() != nil {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	few := p.shortlist(f, asked, p.askerOf(pod))
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
func (p *Plugin) shortlist(f *topology.Fabric, asked *allocate.Request, a *asker) sets.Set[string] {
	plain, _ := asked.Plain()
	out, occupancy, nodes := sets.New[string](), p.engine.Occupancy(f), p.handle.SnapshotSharedLister().NodeInfos()
	for length, done := shortlistLength, 0; ; length *= shortlistGrowth {
		best, known := p.lists.best(f, occupancy, asked, plain, length)
		if !known {
			return nil
		}
		for _, at := range best[min(done, len(best)):] {
			name := f.Name(at)
			info, err := nodes.Get(name)
			if err != nil || info.Node() == nil || !p.serves(a, info) {
				continue // the scheduler has not heard of the node yet, or not any more
			}
			if out.Insert(name); len(out) == shortlistLength {
				return out
			}
		}
		if len(out) >= shortlistLeast || len(best) < length {
			return out
		}
		done = length
	}
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

// first reports whether PostFilter stands before preemption: else a pod of which none of the few nodes serves would have others
// evicted from them.
func (p *Plugin) first(ctx context.Context) bool {
	p.order.Do(func() {
		lists, ok := p.handle.(interface{ ListPlugins() *schedconfig.Plugins })
		if !ok {
			return
		}
		for _, plugin := range lists.ListPlugins().PostFilter.Enabled {
			if plugin.Name == names.DefaultPreemption {
				break
			}
			p.isFirst = p.isFirst || plugin.Name == Name
		}
		if !p.isFirst {
			klog.FromContext(ctx).Info("NCCLTopology is not listed in postFilter before DefaultPreemption, so every pod is looked at on all nodes", "profile", p.handle.ProfileName())
		}
	})
	return p.isFirst
}

// PostFilter has a pod of whose few nodes none served tried again on all nodes at once. It stands before preemption, and ends it: there
// may be room elsewhere.
func (p *Plugin) PostFilter(ctx context.Context, state fwk.CycleState, pod *v1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	if engine.ReadState[*shortlisted](state, shortlistKey) == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	metrics.Shortlists.WithLabelValues(metrics.ShortlistFailed).Inc()
	p.widened.Add(pod.UID, nil)
	p.handle.Activate(klog.FromContext(ctx), map[string]*v1.Pod{klog.KObj(pod).String(): pod})
	return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "none of the best nodes for its GPUs serves: all nodes are looked at next")
}

// EventsToRegister returns none: whom PostFilter sends back is tried again at once.
func (*Plugin) EventsToRegister(context.Context) ([]fwk.ClusterEventWithHint, error) { return nil, nil }
