package podgroup

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	testingclock "k8s.io/utils/clock/testing"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

const groupPath = "/apis/scheduling.x-k8s.io/v1alpha1"

// server is the part of an API server that the Watcher talks to.
type server struct {
	*httptest.Server
	t *testing.T
	// asked receives the answer's code of each request for the API's resources.
	asked chan int

	mu sync.Mutex
	// served is whether the API is there, broken a code that every request gets instead.
	served bool
	broken int
	groups []schedulingv1alpha1.PodGroup
	// listMisses are plain lists and watches that get a 404 although the API is there.
	listMisses int
	// cut ends the open watch.
	cut    chan struct{}
	events chan metav1.WatchEvent
	paths  []string
}

func newServer(t *testing.T) *server {
	s := &server{t: t, asked: make(chan int, 64), cut: make(chan struct{}), events: make(chan metav1.WatchEvent, 16)}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if accept := r.Header.Get("Accept"); strings.Contains(accept, "protobuf") {
		s.t.Errorf("request for %s accepts %s: custom resources have no protobuf", r.URL.Path, accept)
	}
	s.mu.Lock()
	s.paths = append(s.paths, r.URL.Path)
	code := http.StatusOK
	switch {
	case s.broken != 0:
		code = s.broken
	case !s.served:
		code = http.StatusNotFound
	case s.listMisses > 0 && r.URL.Path != groupPath && r.URL.Query().Get("sendInitialEvents") == "":
		s.listMisses--
		code = http.StatusNotFound
	}
	groups, cut := s.groups, s.cut
	s.mu.Unlock()
	if r.URL.Path == groupPath {
		defer func() { s.asked <- code }()
	}
	w.Header().Set("Content-Type", "application/json")
	switch {
	case code != http.StatusOK:
		s.answer(w, code, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code),
			Reason: map[int]metav1.StatusReason{404: metav1.StatusReasonNotFound, 503: metav1.StatusReasonServiceUnavailable}[code],
		})
	case r.URL.Path == groupPath:
		s.answer(w, code, metav1.APIResourceList{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: "scheduling.x-k8s.io/v1alpha1",
			APIResources: []metav1.APIResource{{Name: "podgroups", Namespaced: true, Kind: "PodGroup", Verbs: metav1.Verbs{"get", "list", "patch", "watch"}}},
		})
	case r.URL.Path == groupPath+"/podgroups" && r.URL.Query().Get("sendInitialEvents") == "true":
		// As servers without streamed lists do.
		s.answer(w, http.StatusUnprocessableEntity, metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: 422, Reason: metav1.StatusReasonInvalid,
		})
	case r.URL.Path == groupPath+"/podgroups" && r.URL.Query().Get("watch") == "true":
		s.watch(w, r, cut)
	case r.URL.Path == groupPath+"/podgroups":
		s.answer(w, code, schedulingv1alpha1.PodGroupList{
			TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.x-k8s.io/v1alpha1", Kind: "PodGroupList"},
			ListMeta: metav1.ListMeta{ResourceVersion: "10"}, Items: groups,
		})
	default:
		s.t.Errorf("request for %s", r.URL)
	}
}

func (s *server) answer(w http.ResponseWriter, code int, body any) {
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.t.Error(err)
	}
}

func (s *server) watch(w http.ResponseWriter, r *http.Request, cut <-chan struct{}) {
	w.WriteHeader(http.StatusOK)
	flusher := w.(http.Flusher) //nolint:errcheck // the server's own writer has it
	flusher.Flush()
	for {
		select {
		case <-r.Context().Done():
			return
		case <-cut:
			return
		case event := <-s.events:
			if err := json.NewEncoder(w).Encode(event); err != nil {
				s.t.Error(err)
			}
			flusher.Flush()
		}
	}
}

func (s *server) change(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *server) send(kind watch.EventType, o schedulingv1alpha1.PodGroup) {
	s.t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		s.t.Fatal(err)
	}
	event := metav1.WatchEvent{Type: string(kind)}
	event.Object.Raw = text
	s.events <- event
}

// hangUp ends the open watch.
func (s *server) hangUp() {
	close(s.cut)
	s.cut = make(chan struct{})
}

func served(name, uid string, version int) schedulingv1alpha1.PodGroup {
	return schedulingv1alpha1.PodGroup{
		TypeMeta: metav1.TypeMeta{APIVersion: "scheduling.x-k8s.io/v1alpha1", Kind: "PodGroup"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, UID: types.UID(uid), ResourceVersion: fmt.Sprint(version),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		},
		Spec: schedulingv1alpha1.PodGroupSpec{MinMember: int32(version)},
	}
}

// notes is a Sink that writes down what it is told.
type notes chan string

func (n notes) GroupSeen(g Group) {
	o := g.Object.(*schedulingv1alpha1.PodGroup) //nolint:errcheck // as documented
	if o.Kind != "PodGroup" || len(o.ManagedFields) > 0 {
		n <- fmt.Sprintf("object of kind %q with %d managed fields", o.Kind, len(o.ManagedFields))
	}
	n <- fmt.Sprintf("seen %s %s min %d", g.Name, g.UID, g.Spec.MinMember)
}

func (n notes) GroupGone(_, name string, uid gang.GroupUID) {
	n <- fmt.Sprintf("gone %s %s", name, uid)
}

func (n notes) want(t *testing.T, want ...string) {
	t.Helper()
	got := make([]string, len(want))
	for i := range got {
		got[i] = <-n
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("the sink was told (-want +got):\n%s", diff)
	}
}

// watching is a Watcher that runs.
type watching struct {
	*Watcher
	clock *testingclock.FakeClock
	notes notes
	log   ktesting.Buffer
}

func startWatcher(t *testing.T, s *server) *watching {
	t.Helper()
	config := &rest.Config{Host: s.URL}
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.BufferLogs(true)))
	c := testingclock.NewFakeClock(start)
	tickers := make(chan struct{}, 16)
	n := make(notes, 64)
	w := &watching{Watcher: NewWatcher(config, announcing{c, tickers}, n, logger), clock: c, notes: n}
	if config.ContentType != "application/vnd.kubernetes.protobuf" {
		t.Error("the caller's configuration was changed")
	}
	w.log = logger.GetSink().(ktesting.Underlier).GetBuffer() //nolint:errcheck // as documented
	if w.HasSynced() || w.Served() {
		t.Error("synced or served before Run")
	}
	ctx, stop := context.WithCancel(klog.NewContext(t.Context(), logger))
	var done sync.WaitGroup
	done.Go(func() { w.Run(ctx) })
	t.Cleanup(func() { stop(); done.Wait() })
	<-tickers
	return w
}

// look lets the next look for the API happen, and returns what the server answered.
func (w *watching) look(s *server) int {
	w.clock.Step(discoveryPeriod)
	return <-s.asked
}

func TestWatcherFollowsTheAPI(t *testing.T) {
	s := newServer(t)
	w := startWatcher(t, s)
	if code := <-s.asked; code != http.StatusNotFound {
		t.Fatalf("first look: %d", code)
	}
	for range 20 {
		if code := w.look(s); code != http.StatusNotFound {
			t.Fatalf("look: %d", code)
		}
	}
	if !w.HasSynced() || w.Served() {
		t.Errorf("no such API: synced %t, served %t, want true and false", w.HasSynced(), w.Served())
	}
	if n := strings.Count(w.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines of log while the API is absent, want 1:\n%s", n, w.log.String())
	}

	s.change(func() { s.served, s.groups = true, []schedulingv1alpha1.PodGroup{served("a", "u1", 1)} })
	w.look(s)
	w.notes.want(t, "seen a u1 min 1")
	if !w.Served() {
		t.Error("not served while it informs")
	}
	s.send(watch.Modified, served("a", "u1", 2))
	s.send(watch.Added, served("b", "u2", 3))
	s.send(watch.Deleted, served("b", "u2", 4))
	// B26: deleted and submitted again, which a watch can show as one change.
	s.send(watch.Modified, served("a", "u3", 5))
	w.notes.want(t, "seen a u1 min 2", "seen b u2 min 3", "gone b u2", "gone a u1", "seen a u3 min 5")

	s.send(watch.Added, served("c", "u4", 6))
	w.notes.want(t, "seen c u4 min 6")
	s.change(func() { s.served = false; s.hangUp() })
	w.notes.want(t, "gone a u3", "gone c u4")
	for <-s.asked != http.StatusNotFound { //nolint:revive // it only waits
	}

	s.change(func() { s.served, s.groups = true, []schedulingv1alpha1.PodGroup{served("a", "u5", 7)} })
	w.look(s)
	w.notes.want(t, "seen a u5 min 7")
	if !w.HasSynced() {
		t.Error("no longer synced")
	}
}

// One answer that the objects are not found takes no group away while the API is there.
func TestWatcherDoesNotBelieveOneMiss(t *testing.T) {
	s := newServer(t)
	s.served, s.groups = true, []schedulingv1alpha1.PodGroup{served("a", "u1", 1)}
	w := startWatcher(t, s)
	<-s.asked
	w.notes.want(t, "seen a u1 min 1")
	s.change(func() {
		s.listMisses, s.groups = 1, []schedulingv1alpha1.PodGroup{served("a", "u1", 2)}
		s.hangUp()
	})
	if code := <-s.asked; code != http.StatusOK {
		t.Errorf("look after the miss: %d", code)
	}
	s.send(watch.Modified, served("a", "u1", 2))
	w.notes.want(t, "seen a u1 min 2")
}

func TestWatcherIsNotSyncedWhileTheServerFails(t *testing.T) {
	s := newServer(t)
	s.broken = http.StatusServiceUnavailable
	w := startWatcher(t, s)
	<-s.asked
	for range 5 {
		w.look(s)
	}
	if w.HasSynced() || w.Served() {
		t.Errorf("synced %t, served %t although nobody knows", w.HasSynced(), w.Served())
	}
	if n := strings.Count(w.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines of log for one state, want 1:\n%s", n, w.log.String())
	}
	s.change(func() { s.broken, s.served = 0, true })
	w.look(s)
	s.send(watch.Added, served("a", "u1", 1))
	w.notes.want(t, "seen a u1 min 1")
	for !w.HasSynced() { // the informer notes it in a goroutine of its own, and the test's timeout is the limit
		runtime.Gosched()
	}
}

func TestWatcherWithoutAClient(t *testing.T) {
	w := NewWatcher(&rest.Config{Host: "::no address::"}, testingclock.NewFakeClock(start), make(notes), ktesting.NewLogger(t, ktesting.NewConfig()))
	w.Run(t.Context())
	if w.HasSynced() || w.Served() {
		t.Error("synced or served")
	}
}

func TestRunLeavesNothingBehind(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Run("runs", func(t *testing.T) {
		s := newServer(t)
		s.served, s.groups = true, []schedulingv1alpha1.PodGroup{served("a", "u1", 1)}
		w := startWatcher(t, s)
		w.notes.want(t, "seen a u1 min 1")
	})
	http.DefaultTransport.(*http.Transport).CloseIdleConnections() //nolint:errcheck // as documented
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
