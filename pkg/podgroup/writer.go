package podgroup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

const (
	// batchPeriod is how long changes are gathered: a gang whose members all bind within it costs one write.
	batchPeriod = 200 * time.Millisecond
	// batchPods bounds the parked pods of one batch. Each costs a read and a write, so they take at most 320 requests a
	// second from what binds need.
	batchPods = 32
	// batchGroups bounds the PodGroups of one batch, 50 a second. A server-side apply of a custom resource costs the API
	// server as much as a few binds: when many gangs start at once, the binds go first, and what is written later is written
	// once for all that happened meanwhile.
	batchGroups = 10
	// yieldLimit is how long writes to a PodGroup are put off while Bindings queue up. Each costs the API server two to four
	// times the CPU of a Binding, and a pod that runs is worth more than a line that says so.
	yieldLimit = 5 * time.Second
	// workers is the number of writes in flight.
	workers = 8
)

// Writer shows on the API what gangs do. It gathers desired states and writes, a batch at a time, only what differs from
// what the API shows. Binding never waits for it. Safe for concurrent use.
type Writer struct {
	groups versioned.Interface
	pods   kubernetes.Interface
	clock  clock.WithTicker
	report Reporter
	logger klog.Logger
	// busy reports whether Bindings queue up; nil is never.
	busy func() bool

	// mu guards what follows. No call leaves while it is held.
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	names   map[gang.GroupUID]types.NamespacedName
	// dirty holds the entries of which something may have to be written.
	dirty map[types.NamespacedName]struct{}
}

// NewWriter returns a Writer that gathers from the start and writes while Run runs. busy, which may be nil, reports whether the
// API server has Bindings to do: while it does, PodGroups wait for up to 5 s.
func NewWriter(groups versioned.Interface, pods kubernetes.Interface, c clock.WithTicker, report Reporter, logger klog.Logger, busy func() bool) *Writer {
	return &Writer{
		groups: groups, pods: pods, clock: c, report: report, logger: logger, busy: busy,
		entries: map[types.NamespacedName]*entry{}, names: map[gang.GroupUID]types.NamespacedName{},
		dirty: map[types.NamespacedName]struct{}{},
	}
}

// Seen tells what the API shows of a group, so that a Writer that begins to write after another one writes only what
// differs, and reports no reason twice. What is seen after this Writer's own first write counts for nothing.
func (w *Writer) Seen(g Group) {
	o, ok := g.Object.(*schedulingv1alpha1.PodGroup)
	if !ok {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(types.NamespacedName{Namespace: g.Namespace, Name: g.Name}, g.UID)
	if !e.tried {
		e.shown = &shown{status: statusOf(o), reason: reasonOf(o)}
		e.layout = o.Annotations[v1alpha1.LayoutAnnotation]
		if e.version = o.ResourceVersion; !e.wanted || e.reported == "" {
			e.reported = e.shown.reason
		}
	}
}

// Set replaces what the API should show of a group. It never blocks and keeps the last state per name: a group of the
// same name and another UID is forgotten. The Writer keeps d.Parked and d.StartTime, which must not change afterwards.
func (w *Writer) Set(d Desired) {
	now := w.clock.Now()
	key := d.key()
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.entry(key, d.UID)
	e.set(d, now)
	if _, waits := w.dirty[key]; !waits {
		e.since = now
		w.dirty[key] = struct{}{}
	}
}

// Forget drops a group: nothing is written for it any more.
func (w *Writer) Forget(uid gang.GroupUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drop(uid)
}

// entry finds or makes the entry of a group. The caller holds mu.
func (w *Writer) entry(key types.NamespacedName, uid gang.GroupUID) *entry {
	e := w.entries[key]
	if e != nil && e.uid == uid {
		return e
	}
	if e != nil {
		w.drop(e.uid)
	}
	e = &entry{uid: uid}
	w.entries[key] = e
	w.names[uid] = key
	return e
}

// drop removes a group. The caller holds mu.
func (w *Writer) drop(uid gang.GroupUID) {
	key, has := w.names[uid]
	if !has {
		return
	}
	delete(w.names, uid)
	delete(w.entries, key)
	delete(w.dirty, key)
}

// Run writes until ctx ends. Run it on the replica that leads, once.
func (w *Writer) Run(ctx context.Context) {
	ticker := w.clock.NewTicker(batchPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
			w.flush(ctx)
		}
	}
}

// news is a group whose reason is to be reported, and the version of it that shows the reason.
type news struct {
	desired Desired
	version string
}

// flush writes one batch and returns when all its calls have.
func (w *Writer) flush(ctx context.Context) {
	writes, pods, events := w.take(w.clock.Now())
	for _, n := range events {
		w.report.Report(n.desired.reference(n.version), eventReason, eventAction, n.desired.Reason)
	}
	each(len(writes), func(i int) { w.writeGroup(ctx, &writes[i]) })
	each(len(pods), func(i int) { w.writePod(ctx, &pods[i]) })
	if ctx.Err() == nil {
		w.record(w.clock.Now(), writes, pods)
	}
}

// each calls do with 0 to n-1, several at a time, and returns when all calls have.
func each(n int, do func(int)) {
	var done sync.WaitGroup
	defer done.Wait()
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	for range min(n, workers) {
		done.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
}

// take returns what is due: writes to groups, writes to parked pods, and the states whose reason is news.
func (w *Writer) take(now time.Time) (writes []groupWrite, pods []podWrite, events []news) {
	yields := w.busy != nil && w.busy()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.ordered() {
		e := w.entries[key]
		m := e.writes()
		late := yields && now.Sub(e.since) < yieldLimit && !e.ends()
		due, pending := false, true
		// An event follows the write that it refers to, if that is put off.
		if !yields || !m.reason || now.Sub(e.since) >= yieldLimit+batchPeriod {
			due, pending = e.news(now)
		}
		if due {
			events = append(events, news{e.desired, e.version})
		}
		if m.any() && !late && e.retry.due(now) && len(writes) < batchGroups {
			e.tried = true
			writes = append(writes, groupWrite{desired: e.desired, missing: m})
		}
		parked, owed := e.parked(now, batchPods-len(pods))
		for _, pod := range parked {
			pods = append(pods, podWrite{group: e.desired.UID, pod: pod, reason: e.desired.Reason})
		}
		if !m.any() && !owed && !pending {
			delete(w.dirty, key)
		}
	}
	return writes, pods, events
}

// ordered returns the dirty names: those first whose pods wait longest, then those that wait longest themselves, then by
// name. The caller holds mu.
func (w *Writer) ordered() []types.NamespacedName {
	keys := make([]types.NamespacedName, 0, len(w.dirty))
	for key := range w.dirty {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int {
		x, y := w.entries[a], w.entries[b]
		if x.owed.IsZero() != y.owed.IsZero() {
			if x.owed.IsZero() {
				return 1
			}
			return -1
		}
		return cmp.Or(x.owed.Compare(y.owed), x.since.Compare(y.since), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
	})
	return keys
}
