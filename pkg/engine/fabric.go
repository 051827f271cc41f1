package engine

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	reasonFabric = "FabricLabelsContradict"
	actionFabric = "ReadFabric"
)

// fabric keeps the tree of network domains in line with the labels of the nodes.
type fabric struct {
	args         *config.NCCLTopologyArgs
	report       func(node *v1.Node, detail string)
	logger       klog.Logger
	registration cache.ResourceEventHandlerRegistration

	// current is the tree of the last reader, nil after a change.
	current atomic.Pointer[topology.Fabric]
	// hints is the number of nodes in hinted.
	hints atomic.Int64

	// mu guards what follows. Nothing else is locked while it is held.
	mu      sync.Mutex
	builder *topology.FabricBuilder
	// told are the problems that were reported.
	told map[string]bool
	// hinted are the nodes with the annotation gputopology.io/nccl-hint.
	hinted map[string]bool
	// last is the node whose labels were read last: what is reported is reported about it.
	last *v1.Node
}

// StartFabric has the engine keep the fabric, by the levels of the arguments. Every instance of NCCLTopology calls it; calls
// after the first only check that their args agree. It does not block and does no I/O.
func (e *Engine) StartFabric(handle fwk.Handle, args *config.NCCLTopologyArgs, logger klog.Logger) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.fabric.Load(); f != nil {
		if !reflect.DeepEqual(f.args, args) {
			return fmt.Errorf("profile %q: NCCLTopologyArgs differ from another profile's: the process has one fabric, so all profiles must agree on them", handle.ProfileName())
		}
		return nil
	}
	levels, err := args.FabricLevels()
	if err != nil {
		return fmt.Errorf("profile %q: %w", handle.ProfileName(), err)
	}
	f := &fabric{
		args: args, logger: logger, builder: topology.NewFabricBuilder(levels), told: map[string]bool{}, hinted: map[string]bool{},
		report: func(node *v1.Node, detail string) { e.Report(node, reasonFabric, actionFabric, detail) },
	}
	f.registration, err = handle.SharedInformerFactory().Core().V1().Nodes().Informer().AddEventHandler(
		handlerOf(f.seen, func(_, n *v1.Node) { f.seen(n) }, f.gone))
	if err != nil {
		return fmt.Errorf("watch the labels of nodes: %w", err)
	}
	e.fabric.Store(f)
	return nil
}

// Fabric returns the tree of network domains as it is now; nil where no profile runs NCCLTopology: the cluster is flat then.
func (e *Engine) Fabric() *topology.Fabric {
	f := e.fabric.Load()
	if f == nil {
		return nil
	}
	return f.tree()
}

// FabricArgs returns the arguments of NCCLTopology, nil where no profile runs it.
func (e *Engine) FabricArgs() *config.NCCLTopologyArgs {
	if f := e.fabric.Load(); f != nil {
		return f.args
	}
	return nil
}

// Hinted reports whether any node has the annotation gputopology.io/nccl-hint. Nearly no cluster has one, and the scheduler
// looks at hundreds of nodes for each pod.
func (e *Engine) Hinted() bool {
	f := e.fabric.Load()
	return f != nil && f.hints.Load() > 0
}

func (f *fabric) seen(node *v1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, hinted := node.Annotations[v1alpha1.NCCLHintAnnotation]
	f.hint(node.Name, hinted)
	if f.builder.SetNode(node.Name, node.Labels) {
		f.last = node
		f.current.Store(nil)
	}
}

// hint notes whether a node has a hint. The caller holds mu.
func (f *fabric) hint(node string, has bool) {
	if has {
		f.hinted[node] = true
	} else {
		delete(f.hinted, node)
	}
	f.hints.Store(int64(len(f.hinted)))
}

func (f *fabric) gone(node *v1.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hint(node.Name, false)
	if f.builder.RemoveNode(node.Name) {
		f.current.Store(nil)
	}
}

// tree builds the tree anew if a node has changed, and reports what is newly wrong with it.
func (f *fabric) tree() *topology.Fabric {
	if t := f.current.Load(); t != nil {
		return t
	}
	f.mu.Lock()
	t := f.builder.Fabric()
	f.current.Store(t)
	problems, last := t.Problems(), f.last
	var news []string
	told := make(map[string]bool, len(problems))
	for _, p := range problems {
		text := p.String()
		told[text] = true
		if !f.told[text] {
			news = append(news, text)
		}
	}
	f.told = told
	f.mu.Unlock()
	for _, text := range news {
		f.logger.Info("Labels of the fabric contradict each other", "problem", text)
		if last != nil {
			f.report(last, text)
		}
	}
	return t
}
