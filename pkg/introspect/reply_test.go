package introspect

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestHost: whoever asks names an address. A web page elsewhere can point a name of its own here, and not an address.
func TestHost(t *testing.T) {
	h := Handler(&source{n: 1})
	for host, want := range map[string]int{
		"localhost": 200, "localhost:10269": 200, "LocalHost:1": 200, "127.0.0.1": 200, "127.0.0.1:10269": 200, "10.0.0.7:8080": 200,
		"[::1]:10269": 200, "[::1]": 200, "[fe80::1%eth0]:10269": 200,
		"": 403, "attacker.example": 403, "attacker.example:10269": 403, "127.0.0.1.attacker.example": 403, "localhost.attacker.example:10269": 403,
		"attacker.example@127.0.0.1": 403, "2130706433:10269": 403, "0x7f.1": 403, "gpu-topology-scheduler.gpu-topology-system.svc:10269": 403,
		strings.Repeat("a", 300) + ":1": 403,
	} {
		for _, target := range []string{"/v1/pods", "/v1/nothing"} {
			r := request(http.MethodGet, target)
			r.Host = host
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if want == 200 && target != "/v1/pods" {
				continue
			}
			got := body(t, w.Body)
			if w.Code != want || want == 403 && (!strings.Contains(got, short(host)) || strings.Contains(got, "items") || len(got) > 400) {
				t.Errorf("host %q, %s: %d %s, want %d", host, target, w.Code, got, want)
			}
		}
	}
}

// slow is a connection whose reader takes nothing until it is told to.
type slow struct {
	*httptest.ResponseRecorder
	writing, release chan struct{}
	once             sync.Once
	deadlines        []time.Time
}

func newSlow() *slow {
	return &slow{ResponseRecorder: httptest.NewRecorder(), writing: make(chan struct{}), release: make(chan struct{})}
}

func (s *slow) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.writing); <-s.release })
	return s.ResponseRecorder.Write(p)
}

func (s *slow) SetWriteDeadline(at time.Time) error {
	s.deadlines = append(s.deadlines, at)
	return nil
}

// TestSlowReadersHoldNoSlot: more of them than there are slots keep nobody from an answer, and their number is bounded.
func TestSlowReadersHoldNoSlot(t *testing.T) {
	h := Handler(&source{n: MaxLimit})
	const large = "/v1/nodes?limit=5000"
	if size := ask(h, http.MethodGet, large).Body.Len(); size <= 4*chunk {
		t.Fatalf("%d bytes are not large", size)
	}
	var running sync.WaitGroup
	var readers []*slow
	for range Delivered {
		s := newSlow()
		readers = append(readers, s)
		running.Go(func() { h.ServeHTTP(s, request(http.MethodGet, large)) })
		<-s.writing
	}
	if r := ask(h, http.MethodGet, large); r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") == "" {
		t.Errorf("one long answer more: %d %v", r.Code, r.Header())
	}
	for _, target := range []string{"/v1/summary", "/v1/sweep", "/v1/pods?limit=10"} {
		if r := ask(h, http.MethodGet, target); r.Code != http.StatusOK {
			t.Errorf("%s beside %d slow readers: %d", target, Delivered, r.Code)
		}
	}
	for _, s := range readers {
		close(s.release)
	}
	running.Wait()
	for i, s := range readers {
		if s.Code != http.StatusOK || fmt.Sprint(s.Body.Len()) != s.Header().Get("Content-Length") {
			t.Errorf("reader %d: %d, %d bytes of %s", i, s.Code, s.Body.Len(), s.Header().Get("Content-Length"))
		}
	}
	if r := ask(h, http.MethodGet, large); r.Code != http.StatusOK {
		t.Errorf("afterwards: %d", r.Code)
	}
}

// TestDeadlines: every part of a body has a time of its own, so that one who stops reading is cut off long before the end.
func TestDeadlines(t *testing.T) {
	s := newSlow()
	close(s.release)
	from := time.Now()
	deliver(s, http.StatusOK, make([]byte, 3*chunk+1))
	to := time.Now()
	if len(s.deadlines) != 4 || s.Body.Len() != 3*chunk+1 {
		t.Fatalf("%d deadlines for %d bytes", len(s.deadlines), s.Body.Len())
	}
	for i, at := range s.deadlines {
		if at.Before(from.Add(chunkTimeout)) || at.After(to.Add(chunkTimeout)) {
			t.Errorf("part %d: %v after the start of %v", i, at.Sub(from), to.Sub(from))
		}
		from = at.Add(-chunkTimeout)
	}
}
