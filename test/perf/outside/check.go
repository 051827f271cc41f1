package main

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
)

// check reads back what a variant decided, and how far its gangs are spread. The binder decides nothing, so there is nothing
// to check of it.
func (b *bench) check(ctx context.Context, v *variant) (Spread, error) {
	if !v.scheduler {
		return Spread{}, nil
	}
	list, err := b.client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return Spread{}, err
	}
	if len(list.Items) != b.size.pods() {
		return Spread{}, fmt.Errorf("%d pods exist, want %d", len(list.Items), b.size.pods())
	}
	if err := checkCounts(list.Items); err != nil {
		return Spread{}, err
	}
	if v.plugins {
		if err := b.checkRecords(list.Items, v); err != nil {
			return Spread{}, err
		}
	}
	return spreadOf(&b.size, list.Items, b.places)
}

// checkCounts holds the GPUs of every node's pods against what a node has.
func checkCounts(pods []v1.Pod) error {
	used := map[string]int64{}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" {
			return fmt.Errorf("pod %s has no node", pod.Name)
		}
		gpus := pod.Spec.Containers[0].Resources.Limits[gpuResource]
		used[pod.Spec.NodeName] += gpus.Value()
		if n := used[pod.Spec.NodeName]; n > int64(machine.Count) {
			return fmt.Errorf("pods on node %s hold %d GPUs, it has %d", pod.Spec.NodeName, n, machine.Count)
		}
	}
	return nil
}

// checkRecords reads every pod's record: no card is sold twice, and the pods of a PodGroup were planned as a gang.
func (b *bench) checkRecords(pods []v1.Pod, v *variant) error {
	cards, err := oracle.New(b.graphs)
	if err != nil {
		return err
	}
	for i := range pods {
		pod := &pods[i]
		record, err := v1alpha1.ParseRecord(pod.Annotations[v1alpha1.AllocationAnnotation])
		if err != nil {
			return fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		if err := cards.Place(pod.Name, record); err != nil {
			return err
		}
		want := "" // of a pod that ran before, which was of no gang
		if group := pod.Labels[groupLabel]; group != "" || pod.Namespace != runningNamespace {
			want = pod.Namespace + "/" + group
		}
		if v.members == byLabel && record.Gang != want {
			return fmt.Errorf("pod %s: its record names gang %q, want %q: it was not scheduled as a gang", pod.Name, record.Gang, want)
		}
	}
	return nil
}
