package nccltopology

import (
	"context"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
)

// Filters that may be asked before PreFilter is over. Which filters sit a cycle out the framework notes only after that, and to ask one
// that does may be an error, or end the process.
var (
	// independent need nothing of what their PreFilter writes.
	independent = sets.New(names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity, engine.CardsName, book.PluginName)
	// dependent sit out where their PreFilter has written nothing under stateOf.
	dependent = sets.New(names.NodeResourcesFit, names.NodePorts, names.InterPodAffinity, names.NodeDeclaredFeatures, names.VolumeRestrictions, names.PodTopologySpread)
)

// stateOf is the key under which the in-tree plugins among dependent write.
func stateOf(name string) fwk.StateKey { return fwk.StateKey("PreFilter" + name) }

// passes reports whether the filters let the pod onto a node, pods that were promised the node included; known is false where they
// failed. Filters of others, and those of volumes, are not asked.
func (p *Plugin) passes(ctx context.Context, state fwk.CycleState, pod *v1.Pod, info fwk.NodeInfo) (ok, known bool) {
	defer state.SetSkipFilterPlugins(state.GetSkipFilterPlugins())
	out := sets.New[string]()
	for _, name := range p.filters {
		if independent.Has(name) {
			continue
		}
		if _, err := state.Read(stateOf(name)); err != nil || !dependent.Has(name) {
			out.Insert(name)
		}
	}
	state.SetSkipFilterPlugins(out)
	status := p.handle.RunFilterPluginsWithNominatedPods(ctx, state, pod, info)
	return status.IsSuccess(), status.IsSuccess() || status.IsRejected()
}

// widened are the pods that are looked at on all nodes since none of a few served. It is safe for concurrent use.
type widened struct {
	lister corelisters.PodLister
	mu     sync.Mutex
	pods   map[types.UID]types.NamespacedName
	// left is how many there were after pods that wait no more were last taken out.
	left int
}

// widenedSlack is how many more pods there may be than twice those that were left, before pods that wait no more are looked for.
const widenedSlack = 256

func (w *widened) has(pod *v1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.pods[pod.UID]
	return ok
}

func (w *widened) add(pod *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pods == nil {
		w.pods = map[types.UID]types.NamespacedName{}
	}
	w.pods[pod.UID] = types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	if len(w.pods) <= 2*w.left+widenedSlack {
		return
	}
	for uid, name := range w.pods {
		if known, err := w.lister.Pods(name.Namespace).Get(name.Name); err != nil || known.UID != uid || known.Spec.NodeName != "" {
			delete(w.pods, uid)
		}
	}
	w.left = len(w.pods)
}
