package simulate

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// review looks at the whole cluster once more when all pods have been created: pods that hold cards run, their records
// are what they were and sell no card twice, and a pod that does not fit is still Pending.
func (d *demo) review(ctx context.Context) error {
	graphs := map[string]*topology.Node{}
	for i := range d.nodes {
		graphs[d.nodes[i].Object.Name] = d.nodes[i].Topology
	}
	fresh, err := oracle.New(graphs)
	if err != nil {
		return err
	}
	for i := range d.placements {
		if err := d.reviewPod(ctx, fresh, &d.placements[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) reviewPod(ctx context.Context, fresh *oracle.Cluster, p *Placement) error {
	pod, err := d.cluster.Client.CoreV1().Pods(workloadNamespace).Get(ctx, p.Pod.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if p.Node == "" {
		if pod.Spec.NodeName != "" {
			d.fault(fmt.Errorf("pod %s did not fit and is bound to node %s now", pod.Name, pod.Spec.NodeName))
		}
		return nil
	}
	if pod, err = awaitPod(ctx, d.cluster.Client, pod, func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning }); err != nil {
		return fmt.Errorf("pod %s does not run: %w", p.Pod.Name, err)
	}
	record, err := recordOf(pod)
	if err != nil {
		return err
	}
	d.fault(fresh.Place(pod.Name, record))
	var cards topology.GPUSet
	for i := range record.Cards {
		cards = cards.With(record.Cards[i].Index)
	}
	if record.Node != p.Node || cards != p.Cards {
		d.fault(fmt.Errorf("pod %s held %v of node %s and holds %v of node %s now", pod.Name, p.Cards, p.Node, cards, record.Node))
	}
	return nil
}

// report shows all placements and returns the faults.
func (d *demo) report() error {
	d.screen.Line("\n%s", table(d.placements))
	bound := 0
	for i := range d.placements {
		if p := &d.placements[i]; p.Node != "" {
			bound++
		} else {
			d.screen.Line("%s stays Pending, the best node falls short: it %s.", p.Pod.Name, p.Nearest)
			d.screen.Line("Its PodScheduled condition says: %s", p.Reason)
		}
	}
	if len(d.faults) > 0 {
		d.screen.Line("\n%d faults:", len(d.faults))
		return d.cluster.withLog(errors.Join(d.faults...))
	}
	d.screen.Line("\nAll %d placements equal those of the brute-force search, no card is sold twice, and %d pod waits as it must.",
		bound, len(d.placements)-bound)
	return nil
}

// keep leaves the cluster running until the caller's context ends, which is success then.
func (d *demo) keep(ctx, running context.Context) error {
	d.screen.Line("\nEverything keeps running until Ctrl-C. To look at it from another terminal:\n\nexport KUBECONFIG=%s\n", d.cluster.Kubeconfig)
	<-running.Done()
	select {
	case <-ctx.Done():
		return nil
	default:
		return context.Cause(running)
	}
}
