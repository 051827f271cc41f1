package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

const (
	// binderCommand is the argument by which this program runs as the binder.
	binderCommand = "binder"
	// binderReady is the line that the binder prints when it watches.
	binderReady = "binder ready"
	// binders is how many pods are bound at the same time. A scheduler has a goroutine for each.
	binders = 100
)

// bindAll binds every pod without a node to the next node in the order of their names, each node as often as it has
// places, from the moment in which it gets the lease until ctx ends. It decides nothing and writes no events: what is left is the API server's own work.
func bindAll(ctx context.Context, client kubernetes.Interface, places int, out io.Writer) error {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	if len(nodes.Items) == 0 || places < 1 {
		return fmt.Errorf("%d nodes with %d places: must be at least 1 each", len(nodes.Items), places)
	}
	pods := make(chan *v1.Pod, binders)
	handler := cache.ResourceEventHandlerFuncs{AddFunc: func(object any) {
		pod, ok := object.(*v1.Pod)
		if !ok {
			return
		}
		select {
		case pods <- pod:
		case <-ctx.Done():
		}
	}}
	unbound := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", namespace, fields.OneTermEqualSelector("spec.nodeName", ""))
	_, informer := cache.NewInformerWithOptions(cache.InformerOptions{ListerWatcher: unbound, ObjectType: &v1.Pod{}, Handler: handler})
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() { informer.RunWithContext(ctx) })
	cache.WaitForCacheSync(ctx.Done(), informer.HasSynced)
	if _, err := fmt.Fprintln(out, binderReady); err != nil {
		return err
	}
	if err := takeWhenFree(ctx, client, binderCommand); err != nil {
		return err
	}
	b := &binder{client: client, nodes: nodes.Items, places: places}
	failed := make(chan error, binders)
	for range binders {
		running.Go(func() {
			if err := b.work(ctx, pods); err != nil {
				failed <- err
			}
		})
	}
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return take(context.WithoutCancel(ctx), client, "")
	}
}

type binder struct {
	client kubernetes.Interface
	nodes  []v1.Node
	places int

	mu   sync.Mutex
	next int // guarded by mu
}

// node returns the next place.
func (b *binder) node() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.next / b.places % len(b.nodes)
	b.next++
	return b.nodes[n].Name
}

func (b *binder) work(ctx context.Context, pods <-chan *v1.Pod) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case pod := <-pods:
			binding := &v1.Binding{
				ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
				Target:     v1.ObjectReference{Kind: "Node", Name: b.node()},
			}
			if err := b.client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}
