package podgroup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"
	podgroupinformers "sigs.k8s.io/scheduler-plugins/pkg/generated/informers/externalversions/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

// discoveryPeriod is the time between two looks for the API while it is not served.
const discoveryPeriod = 5 * time.Second

// Sink takes the PodGroups. The Watcher makes one call at a time. A group whose UID changes is gone before it is seen
// anew, and every group is gone once the API is.
type Sink interface {
	// GroupSeen is a group that is new or has changed.
	GroupSeen(Group)
	// GroupGone is a group that was seen and is no more.
	GroupGone(namespace, name string, uid gang.GroupUID)
}

// Watcher tells a Sink of every PodGroup, from the moment at which the API is served. Run it once; the other methods may
// be called at any time.
type Watcher struct {
	client versioned.Interface
	// broken is why there is no client.
	broken error
	clock  clock.WithTicker
	sink   Sink
	logger klog.Logger

	served, synced atomic.Bool
	// registration tells whether the first list reached the sink.
	registration atomic.Pointer[cache.ResourceEventHandlerRegistration]

	// told holds the groups that the sink knows. The informer's one handler goroutine changes it, and Run once the
	// informer has ended.
	told map[types.NamespacedName]gang.GroupUID
}

// NewWatcher returns a Watcher that does nothing until Run. A config of which no client can be made is logged by Run, and
// HasSynced stays false.
func NewWatcher(config *rest.Config, c clock.WithTicker, sink Sink, logger klog.Logger) *Watcher {
	client, err := NewClient(config)
	return &Watcher{
		client: client, broken: err, clock: c, sink: sink, logger: logger,
		told: map[types.NamespacedName]gang.GroupUID{},
	}
}

// Served reports whether the API server serves PodGroups now.
func (w *Watcher) Served() bool { return w.served.Load() }

// HasSynced reports whether the sink knows every group that existed at the start: the first list has reached it, or there
// is no such API. It stays true.
func (w *Watcher) HasSynced() bool {
	if w.synced.Load() {
		return true
	}
	registration := w.registration.Load()
	if registration == nil || !(*registration).HasSynced() {
		return false
	}
	w.synced.Store(true)
	return true
}

// Run looks for the API until it is served, watches until it is removed, and begins anew, until ctx ends. It returns when
// the sink will not be called any more.
func (w *Watcher) Run(ctx context.Context) {
	if w.broken != nil {
		w.logger.Error(w.broken, "PodGroups are not watched")
		return
	}
	for w.await(ctx) {
		w.served.Store(true)
		w.logger.Info("PodGroups are served and watched", "groupVersion", schedulingv1alpha1.SchemeGroupVersion)
		err := w.watch(ctx)
		w.served.Store(false)
		if err != nil {
			w.logger.Error(err, "PodGroups are not watched any more")
			return
		}
		if ctx.Err() != nil {
			return
		}
		w.forgetAll()
	}
}

// await returns true as soon as PodGroups are served, false when ctx ends. It logs a state once, however long it lasts.
func (w *Watcher) await(ctx context.Context) bool {
	ticker := w.clock.NewTicker(discoveryPeriod)
	defer ticker.Stop()
	last := ""
	for {
		served, err := w.discover(ctx)
		var state string
		switch {
		case served:
			return true
		case err == nil:
			w.synced.Store(true)
			state = "there is no such API"
		default:
			state = fmt.Sprintf("nobody knows whether there is such an API: %v", err)
		}
		if state != last && ctx.Err() == nil {
			last = state
			w.logger.Info("PodGroups are not served yet", "groupVersion", schedulingv1alpha1.SchemeGroupVersion,
				"lookingEvery", discoveryPeriod, "reason", state)
		}
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C():
		}
	}
}

// discover asks whether PodGroups can be listed and watched. An error means that nobody knows.
func (w *Watcher) discover(ctx context.Context) (bool, error) {
	resources, err := discovery.ToDiscoveryInterfaceWithContext(w.client.Discovery()).
		ServerResourcesForGroupVersionWithContext(ctx, schedulingv1alpha1.SchemeGroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	for _, r := range resources.APIResources {
		if r.Name == "podgroups" {
			return slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch"), nil
		}
	}
	return false, nil
}

// watch informs the sink until the API is gone or ctx ends. The sink is not called after it returns. An error is one of
// this code, not of the API server.
func (w *Watcher) watch(ctx context.Context) error {
	informer := podgroupinformers.NewPodGroupInformer(w.client, metav1.NamespaceAll, 0, cache.Indexers{})
	if err := informer.SetTransform(strip); err != nil {
		return fmt.Errorf("shorten what the cache holds: %w", err)
	}
	missing := make(chan struct{}, 1)
	err := informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if !apierrors.IsNotFound(err) {
			cache.DefaultWatchErrorHandler(ctx, r, err)
			return
		}
		select {
		case missing <- struct{}{}:
		default:
		}
	})
	if err != nil {
		return fmt.Errorf("handle errors of the watch: %w", err)
	}
	registration, err := informer.AddEventHandler(w.handler())
	if err != nil {
		return fmt.Errorf("handle events of the watch: %w", err)
	}
	w.registration.Store(&registration)
	running, stop := context.WithCancel(klog.NewContext(ctx, w.logger))
	var done sync.WaitGroup
	defer done.Wait()
	defer stop()
	done.Go(func() { informer.RunWithContext(running) })
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-missing:
			// One 404 is not believed: it would take every gang's group away.
			if served, err := w.discover(ctx); err == nil && !served {
				w.logger.Info("PodGroups are no longer served", "groupVersion", schedulingv1alpha1.SchemeGroupVersion)
				return nil
			}
		}
	}
}

// strip prepares an object for the cache: it takes away what nobody reads and adds the kind that events need.
func strip(event any) (any, error) {
	if o, ok := event.(*schedulingv1alpha1.PodGroup); ok {
		o.ManagedFields = nil
		o.SetGroupVersionKind(schedulingv1alpha1.SchemeGroupVersion.WithKind("PodGroup"))
	}
	return event, nil
}

func (w *Watcher) handler() cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    w.seen,
		UpdateFunc: func(_, event any) { w.seen(event) },
		DeleteFunc: func(event any) {
			if tombstone, ok := event.(cache.DeletedFinalStateUnknown); ok {
				event = tombstone.Obj
			}
			if o, ok := event.(*schedulingv1alpha1.PodGroup); ok {
				w.gone(types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
			}
		},
	}
}

func (w *Watcher) seen(event any) {
	o, ok := event.(*schedulingv1alpha1.PodGroup)
	if !ok {
		return
	}
	g := Parse(o)
	key := types.NamespacedName{Namespace: g.Namespace, Name: g.Name}
	if uid, has := w.told[key]; has && uid != g.UID {
		w.gone(key)
	}
	w.told[key] = g.UID
	w.sink.GroupSeen(g)
}

// gone ends the group that the sink knows by this name. A deletion that was missed can show an object older than it.
func (w *Watcher) gone(key types.NamespacedName) {
	if uid, has := w.told[key]; has {
		delete(w.told, key)
		w.sink.GroupGone(key.Namespace, key.Name, uid)
	}
}

// forgetAll ends every group, by name.
func (w *Watcher) forgetAll() {
	keys := make([]types.NamespacedName, 0, len(w.told))
	for key := range w.told {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		w.gone(key)
	}
}
