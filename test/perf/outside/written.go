package main

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// writtenPoll is how often all PodGroups are read: seldom enough to cost the API server next to nothing.
	writtenPoll = 500 * time.Millisecond
	// phaseScheduled is the phase of a PodGroup whose pods are bound and, for want of a kubelet, never run.
	phaseScheduled = "Scheduled"
)

// awaitWritten waits until every gang's PodGroup says that its pods are scheduled, where our plugins write it. They do so slowly
// enough to pass for idle, and it is their work all the same.
func (b *bench) awaitWritten(ctx context.Context, v *variant) error {
	if !v.plugins || v.members != byLabel {
		return nil
	}
	groups := b.dynamic.Resource(groupResource).Namespace(namespace)
	return wait.PollUntilContextCancel(ctx, writtenPoll, true, func(ctx context.Context) (bool, error) {
		list, err := groups.List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(list.Items, unwritten), nil
	})
}

// unwritten reports whether a PodGroup does not say yet that its pods are scheduled.
func unwritten(group unstructured.Unstructured) bool {
	phase, _, err := unstructured.NestedString(group.Object, "status", "phase")
	return err != nil || phase != phaseScheduled
}
