package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// registry is an API server that takes events and answers each when it is told to.
type registry struct {
	answer, answered chan struct{}

	mu sync.Mutex
	by map[string]string // who reported the event of each pod
}

func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := io.ReadAll(request.Body)
	event := eventsv1.Event{}
	if err == nil {
		err = json.Unmarshal(text, &event)
	}
	r.mu.Lock()
	r.by[event.Regarding.Name] = event.ReportingController
	r.mu.Unlock()
	<-r.answer
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	if _, err := w.Write(text); err == nil {
		r.answered <- struct{}{}
	}
}

// TestEventsGoBehindBindings: while Bindings are open, what the profiles' recorders are told does not reach the API server. Then it
// does, in the name of the profile, also when the scheduler's context has ended.
func TestEventsGoBehindBindings(t *testing.T) {
	const each = 4
	r := &registry{answer: make(chan struct{}), answered: make(chan struct{}, 3*each), by: map[string]string{}}
	server := httptest.NewServer(r)
	defer server.Close()
	config := &rest.Config{Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
	type bare struct{ framework.Framework }
	profiles := profile.Map{"gpu": bare{}, "compat": bare{}}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var open atomic.Bool
	open.Store(true)
	looks := make(chan struct{}, 1<<16)
	stop, err := announceBehind(ctx, config, profiles, func() bool {
		looks <- struct{}{}
		return open.Load()
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	want := map[string]string{}
	for name, p := range profiles {
		for i := range each {
			pod := kit.Pod("ns", fmt.Sprint(name, i), kit.UID(fmt.Sprint(name, i)))
			want[pod.Name] = name
			p.EventRecorder().Eventf(pod, nil, v1.EventTypeNormal, "Scheduled", "Binding", "")
		}
	}
	for range 2 * each { // each is looked at when it comes
		<-looks
	}
	r.mu.Lock()
	if len(r.by) > 0 {
		t.Errorf("events of pods %v were written while Bindings were open", r.by)
	}
	r.mu.Unlock()
	cancel()
	open.Store(false)
	for range 2 * each {
		r.answer <- struct{}{}
		<-r.answered
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if fmt.Sprint(r.by) != fmt.Sprint(want) {
		t.Errorf("events of pods by profile %v, want %v", r.by, want)
	}
}
