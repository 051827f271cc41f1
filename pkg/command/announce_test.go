package command

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
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

	mu        sync.Mutex
	now, most int
	by        map[string]string // who reported the event of each pod
}

func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	text, err := io.ReadAll(request.Body)
	event := eventsv1.Event{}
	if err == nil {
		err = json.Unmarshal(text, &event)
	}
	r.mu.Lock()
	r.now++
	r.most = max(r.most, r.now)
	r.by[event.Regarding.Name] = event.ReportingController
	r.mu.Unlock()
	<-r.answer
	r.mu.Lock()
	r.now--
	r.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
	}
	if _, err := w.Write(text); err == nil {
		r.answered <- struct{}{}
	}
}

// TestEventsGoBehindBindings: while Bindings are open, what the profiles' recorders are told reaches the API server one by one, in
// the name of the profile, and goes on when the scheduler's context has ended.
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
	stop, err := announceBehind(ctx, config, profiles, func() bool { return true })
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
	for i := range 2 * each {
		if i == each {
			cancel()
		}
		r.answer <- struct{}{}
		<-r.answered
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.most != 1 {
		t.Errorf("%d events were written at a time, want 1", r.most)
	}
	if fmt.Sprint(r.by) != fmt.Sprint(want) {
		t.Errorf("events of pods by profile %v, want %v", r.by, want)
	}
}
