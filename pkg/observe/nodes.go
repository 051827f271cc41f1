package observe

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/cache"

	"github.com/gputopology/gpu-topology-scheduler/pkg/inventory"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

const (
	reasonProblem = "GPUInventoryProblem"
	actionResolve = "ReadGPUInventory"
	// reportedProblems is the number of problems that one event spells out.
	reportedProblems = 5
)

func (o *Observer) nodeHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    o.nodeEvent,
		UpdateFunc: func(_, n any) { o.nodeEvent(n) },
		DeleteFunc: o.nodeEvent,
	}
}

func (o *Observer) nodeEvent(event any) {
	if node, ok := objectOf[*v1.Node](o.logger, event); ok {
		o.NodeChanged(node.Name)
	}
}

func (o *Observer) sliceHandler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc: o.sliceEvent,
		UpdateFunc: func(old, s any) {
			o.sliceEvent(old) // the node that it may have described before
			o.sliceEvent(s)
		},
		DeleteFunc: o.sliceEvent,
	}
}

func (o *Observer) sliceEvent(event any) {
	if slice, ok := objectOf[*resourcev1.ResourceSlice](o.logger, event); ok {
		o.SliceChanged(slice)
	}
}

// SliceChanged brings the ledger in line with the node that the slice describes.
func (o *Observer) SliceChanged(slice *resourcev1.ResourceSlice) {
	names, err := describedNode(slice)
	if err != nil {
		o.logger.Error(err, "ResourceSlice cannot be read", "slice", slice.Name)
	}
	for _, name := range names {
		o.NodeChanged(name)
	}
}

// describedNode is the index function of sliceIndex.
func describedNode(object any) ([]string, error) {
	slice, ok := object.(*resourcev1.ResourceSlice)
	if !ok {
		return nil, fmt.Errorf("want a ResourceSlice, got %T", object)
	}
	if slice.Spec.Driver != inventory.DRADriver || slice.Spec.NodeName == nil {
		return nil, nil
	}
	return []string{*slice.Spec.NodeName}, nil
}

// NodeChanged reads the node's sources as they are now and hands the ledger what they say. Asking for a node that has
// not changed, or is gone, is harmless.
func (o *Observer) NodeChanged(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.readNode(name) {
		o.noteContradiction(name, o.ledger.Node(ledger.NodeName(name)))
	}
}

// readNode is NodeChanged, and reports whether the ledger was told anything. The caller holds mu, and looks for a contradiction
// afterwards.
func (o *Observer) readNode(name string) bool {
	node, err := o.nodes.Get(name)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			o.logger.Error(err, "Node cannot be read from the informer's store", "node", name)
			return false
		}
		o.inventory.Forget(name)
		o.settled.Delete(name)
		delete(o.problems, name)
		delete(o.quarantines, name)
		o.disown(name)
		o.forgetAdmission(name)
		o.ledger.RemoveNode(ledger.NodeName(name))
		return true
	}
	result, changed := o.inventory.Resolve(node, o.slicesOf(name), o.clock.Now())
	if !changed {
		return false
	}
	if result.Topology != nil || inventory.Describes(node) {
		o.ledger.SetNode(ledger.NodeName(name), result.Topology)
	} else {
		o.ledger.RemoveNode(ledger.NodeName(name)) // a node without GPUs needs no entry
	}
	o.noteProblems(node, result)
	o.noteOwners(node, result.Topology)
	return true
}

// slicesOf returns the slices that describe a node, by name.
func (o *Observer) slicesOf(node string) []*resourcev1.ResourceSlice {
	if o.slices == nil {
		return nil
	}
	objects, err := o.slices.ByIndex(sliceIndex, node)
	if err != nil {
		o.logger.Error(err, "ResourceSlices cannot be read from the informer's store", "node", node)
		return nil
	}
	var out []*resourcev1.ResourceSlice
	for _, object := range objects {
		if slice, ok := object.(*resourcev1.ResourceSlice); ok {
			out = append(out, slice)
		}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

// noteProblems reports what is new. The caller holds mu.
func (o *Observer) noteProblems(node *v1.Node, result inventory.Result) {
	if slices.Equal(o.problems[node.Name], result.Problems) {
		return
	}
	if len(result.Problems) == 0 {
		delete(o.problems, node.Name)
		return
	}
	o.problems[node.Name] = result.Problems
	for _, p := range result.Problems {
		metrics.InventoryProblems.WithLabelValues(p.Source).Inc()
	}
	o.logger.Info("Description of a node's GPUs has faults", "node", node.Name, "source", result.Source, "problems", describe(result.Problems))
	o.report.Report(node, reasonProblem, actionResolve, describe(result.Problems))
}

func describe(problems []inventory.Problem) string {
	texts := make([]string, 0, len(problems))
	for i, p := range problems {
		if i == reportedProblems {
			texts = append(texts, fmt.Sprintf("and %d more", len(problems)-i))
			break
		}
		texts = append(texts, p.String())
	}
	return strings.Join(texts, "; ")
}
