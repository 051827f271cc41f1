package book

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// fakeHost is a scheduler that does nothing but remember.
type fakeHost struct {
	mu        sync.Mutex
	waiting   map[types.UID]*fakeWaiting
	activated map[string]*v1.Pod
	evicted   []string
	reports   []string
	// evict and bind answer for the API server, with nil by default.
	evict func(*v1.Pod) error
	bind  func(*v1.Pod) error
}

func newFakeHost() *fakeHost {
	ok := func(*v1.Pod) error { return nil }
	return &fakeHost{waiting: map[types.UID]*fakeWaiting{}, activated: map[string]*v1.Pod{}, evict: ok, bind: ok}
}

// WaitingPod returns nil for pods that do not wait, which a nil *fakeWaiting is not.
func (h *fakeHost) WaitingPod(uid types.UID) WaitingPod {
	if w := h.waiting[uid]; w != nil {
		return w
	}
	return nil
}

// Activate remembers the pods for take.
func (h *fakeHost) Activate(pods map[string]*v1.Pod) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.Copy(h.activated, pods)
}

// take returns what was activated since the last call, by name.
func (h *fakeHost) take() []*v1.Pod {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*v1.Pod
	for _, name := range slices.Sorted(maps.Keys(h.activated)) {
		out = append(out, h.activated[name])
	}
	clear(h.activated)
	return out
}

// Evict notes the pod's name if the API server agrees.
func (h *fakeHost) Evict(_ context.Context, pod *v1.Pod, _ string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	err := h.evict(pod)
	if err == nil {
		h.evicted = append(h.evicted, pod.Name)
	}
	return err
}

// Report notes "reason: detail".
func (h *fakeHost) Report(_ Object, reason, _, detail string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reports = append(h.reports, reason+": "+detail)
}

// fakeWaiting is a pod at Permit.
type fakeWaiting struct {
	pod              *v1.Pod
	node, planID     string
	timeout          time.Duration
	decided, allowed bool
}

// Allow lets the pod be bound by the next run.
func (w *fakeWaiting) Allow(string) { w.decide(true) }

// Reject has it rolled back by the next run.
func (w *fakeWaiting) Reject(string, string) bool { w.decide(false); return true }

func (w *fakeWaiting) decide(allowed bool) {
	if !w.decided {
		w.decided, w.allowed = true, allowed
	}
}
