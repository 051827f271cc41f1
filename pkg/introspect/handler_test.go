package introspect

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// source has n pods, nodes and gangs, named by number.
type source struct {
	n int
	// entered and release, where they are set, show that Summary is being answered and hold it.
	entered, release chan struct{}
}

func (s *source) Summary() Summary {
	if s.entered != nil {
		s.entered <- struct{}{}
		<-s.release
	}
	return Summary{Synced: true, Leading: true, Nodes: 64, Cards: 512, Held: 100, Free: 400, Quarantined: 12, Suspects: 1}
}

// names returns at most limit names after one.
func (s *source) names(after string, limit int) (names []string, next string) {
	for i := range s.n {
		name := fmt.Sprintf("n%05d", i)
		if name <= after {
			continue
		}
		if len(names) == limit {
			return names, next
		}
		names, next = append(names, name), name
	}
	return names, ""
}

func (s *source) Pods(after string, limit int) (pods []Pod, next string) {
	names, next := s.names(after, limit)
	for _, name := range names {
		pods = append(pods, Pod{
			UID: name, Pod: "ns/p", Node: "n1", Stage: "bound", UnknownCards: 2, UnknownMIG: []ProfileCount{{"1g.10gb", 3}},
			Cards: []CardShare{{Index: 1, UUID: "GPU-1", SliceMask: "0xffffffffffffffff", VRAMBytes: 85899345920, ComputeMilli: 1000}},
		})
	}
	return pods, next
}

func (s *source) Nodes(after string, limit int) (nodes []Node, next string) {
	names, next := s.names(after, limit)
	for _, name := range names {
		nodes = append(nodes, Node{Name: name, Cards: 8, Free: 3, Held: 5, Conflicts: []string{"a <b> & c"}, Quarantine: "q", Missing: 1})
	}
	return nodes, next
}

func (s *source) Gangs(after string, limit int) (gangs []Gang, next string) {
	names, next := s.names(after, limit)
	for _, name := range names {
		gangs = append(gangs, Gang{
			Gang: "ns/" + name, UID: "u", Phase: "planned", MinMember: 8, Members: 8, Held: 8, Reason: "r",
			Plan: &Plan{ID: "u-1", Members: []PlannedMember{{"p-0", "n1", 0}}},
		})
	}
	return gangs, next
}

func (s *source) Sweep() Sweep {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	return Sweep{
		Sweeps: 3, Started: at, DurationSeconds: 0.02, Pods: 80000, Nodes: 10000, Suspected: 1,
		Repairs: map[string]int64{"orphan": 0, "missing": 1}, Last: []Repair{{at, "missing", "ns/p", "n1", "d"}},
	}
}

func ask(h http.Handler, method, target string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request(method, target))
	return w
}

func request(method, target string) *http.Request {
	r := httptest.NewRequest(method, target, http.NoBody)
	r.Host = "localhost:10269"
	return r
}

func body(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestShapes holds what clients read: the names of all fields, in the order of the documentation.
func TestShapes(t *testing.T) {
	tests := map[string]string{
		"/v1/summary": `{"synced":true,"leading":true,"nodes":64,"cards":512,"held":100,"free":400,"quarantined":12,"suspects":1}`,
		"/v1/pods": `{"items":[{"uid":"n00000","pod":"ns/p","node":"n1","stage":"bound","cooling":false,"cards":[{"index":1,"uuid":"GPU-1",` +
			`"sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000,"mig":""}],"unknownCards":2,` +
			`"unknownMIG":[{"profile":"1g.10gb","count":3}]}],"continue":""}`,
		"/v1/nodes": `{"items":[{"name":"n00000","cards":8,"free":3,"held":5,"closed":0,"unusable":0,"foreign":0,"quarantine":"q",` +
			`"conflicts":["a <b> & c"],"missing":1}],"continue":""}`,
		"/v1/gangs": `{"items":[{"gang":"ns/n00000","uid":"u","phase":"planned","minMember":8,"members":8,"held":8,"bound":0,"reason":"r",` +
			`"plan":{"id":"u-1","members":[{"pod":"p-0","node":"n1","rank":0}]}}],"continue":""}`,
		"/v1/sweep": `{"sweeps":3,"started":"2026-03-01T12:00:00Z","durationSeconds":0.02,"pods":80000,"nodes":10000,"suspected":1,` +
			`"repairs":{"missing":1,"orphan":0},"last":[{"at":"2026-03-01T12:00:00Z","kind":"missing","pod":"ns/p","node":"n1","detail":"d"}]}`,
	}
	h := Handler(&source{n: 1})
	for target, want := range tests {
		t.Run(target, func(t *testing.T) {
			r := ask(h, http.MethodGet, target)
			got := body(t, r.Body)
			if r.Code != http.StatusOK || got != want+"\n" {
				t.Errorf("%d %s, want\n%s", r.Code, got, want)
			}
			if r.Header().Get("Content-Type") != "application/json" || r.Header().Get("Content-Length") != fmt.Sprint(len(got)) {
				t.Errorf("header %v of a body of %d bytes", r.Header(), len(got))
			}
		})
	}
}

// TestEmptyLists: an empty list is a list.
func TestEmptyLists(t *testing.T) {
	h := Handler(&source{})
	for _, target := range []string{"/v1/pods", "/v1/nodes", "/v1/gangs"} {
		if got := body(t, ask(h, http.MethodGet, target).Body); got != `{"items":[],"continue":""}`+"\n" {
			t.Errorf("%s: %s", target, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	tests := map[string]struct {
		method, target string
		wantCode       int
		wantError      string
	}{
		"root":                 {"GET", "/", 404, `there is no "/"`},
		"no path":              {"GET", "/v1", 404, `there is no "/v1"`},
		"unknown path":         {"GET", "/v1/reconcile", 404, `there is no "/v1/reconcile"`},
		"POST to unknown path": {"POST", "/reconcile", 404, `there is no "/reconcile"`},
		"below a path":         {"GET", "/v1/pods/ns", 404, `there is no "/v1/pods/ns"`},
		"slash at the end":     {"GET", "/v1/pods/", 404, `there is no "/v1/pods/"`},
		"path that is unclean": {"GET", "/v1/../v1/pods", 404, `there is no "/v1/../v1/pods"`},
		"POST":                 {"POST", "/v1/pods", 405, `method "POST" is not allowed`},
		"DELETE":               {"DELETE", "/v1/sweep", 405, `method "DELETE" is not allowed`},
		"OPTIONS":              {"OPTIONS", "/v1/summary", 405, `method "OPTIONS" is not allowed`},
		"limit of zero":        {"GET", "/v1/pods?limit=0", 400, `limit "0" is not a number from 1 to 5000`},
		"negative limit":       {"GET", "/v1/nodes?limit=-1", 400, `limit "-1"`},
		"limit too large":      {"GET", "/v1/gangs?limit=5001", 400, `limit "5001"`},
		"limit is no number":   {"GET", "/v1/pods?limit=ten", 400, `limit "ten"`},
		"huge limit":           {"GET", "/v1/pods?limit=" + strings.Repeat("9", 100), 400, `limit "` + strings.Repeat("9", maxQuoted) + `..."`},
		"limit twice":          {"GET", "/v1/pods?limit=1&limit=2", 400, `parameter "limit" is given 2 times`},
		"unknown parameter":    {"GET", "/v1/pods?limt=1", 400, `parameter "limt" is not known`},
		"parameter of no list": {"GET", "/v1/sweep?limit=1", 400, `parameter "limit" is not known`},
		"query unreadable":     {"GET", "/v1/pods?limit=%zz", 400, "cannot be read"},
	}
	h := Handler(&source{n: 1})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := ask(h, tt.method, tt.target)
			var got struct{ Error string }
			if err := json.Unmarshal([]byte(body(t, r.Body)), &got); err != nil {
				t.Fatal(err)
			}
			if r.Code != tt.wantCode || !strings.Contains(got.Error, tt.wantError) {
				t.Errorf("%d %q, want %d and %q", r.Code, got.Error, tt.wantCode, tt.wantError)
			}
			if allow := r.Header().Get("Allow"); (allow == "GET, HEAD") != (tt.wantCode == 405) {
				t.Errorf("Allow is %q", allow)
			}
		})
	}
}

// TestPages: pages of every size give every item once, in order, and no page is larger than asked for.
func TestPages(t *testing.T) {
	h := Handler(&source{n: 1001})
	for _, limit := range []int{0, 1, 7, 500, 1000, 1001, 1002, MaxLimit} {
		var got []string
		for token := ""; ; {
			values := url.Values{}
			most := DefaultLimit
			if limit > 0 {
				values.Set("limit", fmt.Sprint(limit))
				most = limit
			}
			if token != "" {
				values.Set("continue", token)
			}
			var p page[Node]
			if err := json.Unmarshal([]byte(body(t, ask(h, http.MethodGet, "/v1/nodes?"+values.Encode()).Body)), &p); err != nil {
				t.Fatal(err)
			}
			if len(p.Items) > most {
				t.Fatalf("limit %d: a page of %d", limit, len(p.Items))
			}
			for _, n := range p.Items {
				got = append(got, n.Name)
			}
			if token = p.Continue; token == "" {
				break
			}
		}
		want, _ := (&source{n: 1001}).names("", 1001)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, d)
		}
	}
}

// TestConcurrent: so many requests are answered at a time, the next one is told to come again, and a refusal needs no slot.
func TestConcurrent(t *testing.T) {
	s := &source{entered: make(chan struct{}), release: make(chan struct{})}
	h := Handler(s)
	var running sync.WaitGroup
	for range Concurrent {
		running.Go(func() {
			if r := ask(h, http.MethodGet, "/v1/summary"); r.Code != http.StatusOK {
				t.Errorf("one of %d at a time: %d", Concurrent, r.Code)
			}
		})
		<-s.entered
	}
	if r := ask(h, http.MethodGet, "/v1/sweep"); r.Code != http.StatusServiceUnavailable || r.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d %v", r.Code, r.Header())
	}
	if r := ask(h, http.MethodPost, "/v1/sweep"); r.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", r.Code)
	}
	close(s.release)
	running.Wait()
	if r := ask(h, http.MethodGet, "/v1/sweep"); r.Code != http.StatusOK {
		t.Errorf("afterwards: %d", r.Code)
	}
}
