package main

import (
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// runningNamespace is where the pods live that are bound before any scheduler starts.
	runningNamespace = "running"
	wholeMilli       = 1000
)

// runningGPUs are what the pods of a node ask for, from the node's number on, over and over: 4, 2, 1 on node 0, 2, 1, 4 on node
// 1. Any three in a row leave a GPU free.
var runningGPUs = [...]int{4, 2, 1}

// occupiedBy is how many GPUs the first pods of node number i hold.
func occupiedBy(i, pods int) int {
	sum := 0
	for k := range pods {
		sum += runningGPUs[(i+k)%len(runningGPUs)]
	}
	return sum
}

// createRunning fills every node with as many bound pods as perNode says, each with its record, and keeps them for the checks. No
// kubelet runs them: their phase stays Pending, which is one for a scheduler once they have a node.
func (b *bench) createRunning(ctx context.Context, perNode int) error {
	ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: runningNamespace}}
	if _, err := b.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
		return err
	}
	b.running = make([]v1.Pod, b.size.Nodes*perNode)
	return inParallel(ctx, len(b.running), func(i int) error {
		node, k := i/perNode, i%perNode
		name, first := b.names[node], occupiedBy(node, k)
		pod, err := runningPod(name, b.graphs[name], first, occupiedBy(node, k+1)-first)
		if err != nil {
			return err
		}
		b.running[i] = *pod
		_, err = b.client.CoreV1().Pods(runningNamespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
}

// runningPod is bound to a node and holds its GPUs from the first on. On a machine whose pairs are all alike these are the ones
// that the scheduler takes.
func runningPod(node string, graph *topology.Node, first, gpus int) (*v1.Pod, error) {
	record := v1alpha1.Record{V: v1alpha1.Version, Node: node}
	for i := first; i < first+gpus; i++ {
		if i >= graph.Len() {
			return nil, fmt.Errorf("node %s: pods ask for more than its %d GPUs", node, graph.Len())
		}
		card := graph.Card(i)
		record.Cards = append(record.Cards, v1alpha1.CardRecord{
			Index: i, UUID: card.UUID, SliceMask: ^v1alpha1.SliceMask(0), VRAMBytes: card.VRAMBytes, ComputeMilli: wholeMilli,
		})
	}
	text, err := record.Format()
	if err != nil {
		return nil, err
	}
	pod := newPod(fmt.Sprintf("%s-gpu-%d", node, first), gpus)
	pod.Namespace = runningNamespace
	pod.Annotations = map[string]string{v1alpha1.AllocationAnnotation: text}
	pod.Spec.NodeName = node
	return pod, nil
}

// checkAll holds that every pod, of those that ran before and of those that were bound since, has GPUs that nobody else has, and
// with our plugins a record of them.
func (b *bench) checkAll(ctx context.Context, v *variant) error {
	list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(list.Items) != b.size.pods() {
		return fmt.Errorf("%d pods exist, want %d", len(list.Items), b.size.pods())
	}
	pods := slices.Concat(list.Items, b.running)
	if err := checkCounts(pods); err != nil || !v.plugins {
		return err
	}
	return b.checkRecords(pods, v)
}
