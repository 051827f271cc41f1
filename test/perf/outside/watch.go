package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// binds is what a watch saw of pods that got their node.
type binds struct {
	seen map[string]bool
	// times has the moment in which each was seen.
	times []time.Time
}

// first and last return the first and the last moment, which exist where the watch has ended well.
func (b *binds) first() time.Time { return b.times[0] }
func (b *binds) last() time.Time  { return b.times[len(b.times)-1] }

// before returns how many were bound before a moment.
func (b *binds) before(t time.Time) int {
	n, _ := slices.BinarySearchFunc(b.times, t, time.Time.Compare)
	return n
}

// awaitBinds watches from a resource version until want pods are bound. The watch has bound pods alone, so that it costs
// the API server one event a pod.
func awaitBinds(ctx context.Context, client kubernetes.Interface, version string, want int) (*binds, error) {
	source := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = "spec.nodeName!="
			return client.CoreV1().Pods(namespace).Watch(ctx, options)
		},
	}
	b := &binds{seen: map[string]bool{}}
	_, err := watchtools.Until(ctx, version, source, func(event watch.Event) (bool, error) {
		pod, ok := event.Object.(*v1.Pod)
		if !ok || event.Type == watch.Deleted || b.seen[pod.Name] {
			return false, nil
		}
		b.seen[pod.Name] = true
		b.times = append(b.times, time.Now())
		return len(b.seen) == want, nil
	})
	if err != nil {
		return nil, fmt.Errorf("%d of %d pods are bound: %w", len(b.seen), want, err)
	}
	return b, nil
}
