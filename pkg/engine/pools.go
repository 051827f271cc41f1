package engine

import (
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// poolLabels are the labels by which clouds and node provisioners name the group of like nodes that a node is from, the first
// that a node has.
var poolLabels = []string{
	"cloud.google.com/gke-nodepool",   // GKE
	"eks.amazonaws.com/nodegroup",     // EKS
	"karpenter.sh/nodepool",           // Karpenter
	"kubernetes.azure.com/agentpool",  // AKS
	"oke.oraclecloud.com/pool.name",   // OKE
	"compute.coreweave.com/node-pool", // CoreWeave
	"alibabacloud.com/nodepool-id",    // ACK
	"doks.digitalocean.com/node-pool", // DOKS
	"lke.linode.com/pool-id",          // LKE
	"alpha.eksctl.io/nodegroup-name",  // eksctl, self-managed
}

// pools knows which pool each node is from. It has an entry a node that is from one.
type pools struct {
	// mu guards names. Nothing else is locked while it is held.
	mu    sync.RWMutex
	names map[ledger.NodeName]string
}

// show has the metrics of cards and gangs read from this engine. The last engine of a process to start is the one that is shown.
func (e *Engine) show(handle fwk.Handle) error {
	nodes := handle.SharedInformerFactory().Core().V1().Nodes().Informer()
	_, err := nodes.AddEventHandler(handlerOf(e.pools.seen, func(_, n *v1.Node) { e.pools.seen(n) }, e.pools.gone))
	if err != nil {
		return fmt.Errorf("watch the pools of nodes: %w", err)
	}
	metrics.Show(e.gauges)
	return nil
}

func (p *pools) seen(node *v1.Node) {
	name := ledger.NodeName(node.Name)
	pool := poolIn(node.Labels)
	if p.of(name) == pool {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if pool == "" {
		delete(p.names, name)
		return
	}
	if p.names == nil {
		p.names = map[ledger.NodeName]string{}
	}
	p.names[name] = pool
}

func (p *pools) gone(node *v1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.names, ledger.NodeName(node.Name))
}

// of returns the pool of a node, "" for none.
func (p *pools) of(name ledger.NodeName) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.names[name]
}

func poolIn(labels map[string]string) string {
	for _, label := range poolLabels {
		if pool := labels[label]; pool != "" {
			return pool
		}
	}
	return ""
}
