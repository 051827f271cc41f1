package simulate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// podPatience bounds the wait for one pod; a decision takes milliseconds.
const podPatience = 30 * time.Second

// createPod creates a pod and returns it once the scheduler has decided: with a node, or with a condition that says why
// there is none.
func createPod(ctx context.Context, client kubernetes.Interface, object *v1.Pod) (*v1.Pod, error) {
	pods := client.CoreV1().Pods(object.Namespace)
	created, err := pods.Create(ctx, object, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("create pod %s: %w", object.Name, err)
	}
	decided, err := awaitPod(ctx, client, created, func(p *v1.Pod) bool {
		return p.Spec.NodeName != "" || unschedulable(p) != ""
	})
	if err != nil {
		return nil, fmt.Errorf("pod %s: the scheduler has not decided: %w", object.Name, err)
	}
	return decided, nil
}

// awaitPod returns the pod as soon as done says so.
func awaitPod(ctx context.Context, client kubernetes.Interface, pod *v1.Pod, done func(*v1.Pod) bool) (*v1.Pod, error) {
	if done(pod) {
		return pod, nil
	}
	ctx, cancel := context.WithTimeout(ctx, podPatience)
	defer cancel()
	selector := fields.OneTermEqualSelector("metadata.name", pod.Name).String()
	source := &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.FieldSelector = selector
			return client.CoreV1().Pods(pod.Namespace).Watch(ctx, options)
		},
	}
	last, err := watchtools.Until(ctx, pod.ResourceVersion, source, func(event watch.Event) (bool, error) {
		seen, ok := event.Object.(*v1.Pod)
		switch {
		case !ok:
			return false, fmt.Errorf("watch event of type %s", event.Type)
		case event.Type == watch.Deleted:
			return false, errDeleted
		}
		return done(seen), nil
	})
	if err != nil {
		return nil, err
	}
	seen, ok := last.Object.(*v1.Pod)
	if !ok {
		return nil, errDeleted
	}
	return seen, nil
}

var errDeleted = errors.New("the pod was deleted")

// unschedulable returns the scheduler's reason why the pod has no node, without what it says of preemption; empty where
// it has not said so.
func unschedulable(pod *v1.Pod) string {
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable {
			reason, _, _ := strings.Cut(c.Message, " preemption:")
			return reason
		}
	}
	return ""
}

// recordOf reads a bound pod's record.
func recordOf(pod *v1.Pod) (*v1alpha1.Record, error) {
	value, ok := pod.Annotations[v1alpha1.AllocationAnnotation]
	if !ok {
		return nil, fmt.Errorf("pod %s is bound to node %s without annotation %s", pod.Name, pod.Spec.NodeName, v1alpha1.AllocationAnnotation)
	}
	r, err := v1alpha1.ParseRecord(value)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	if r.Node != pod.Spec.NodeName {
		return nil, fmt.Errorf("pod %s is bound to node %s, its record says %s", pod.Name, pod.Spec.NodeName, r.Node)
	}
	return r, nil
}
