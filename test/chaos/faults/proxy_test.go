package faults

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backend answers "answer" to everything and streams lines to watches until they end.
type backend struct {
	*httptest.Server
	requests atomic.Int32
}

func startBackend(t *testing.T) *backend {
	t.Helper()
	b := &backend{}
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.requests.Add(1)
		w.Header().Set("X-Path", r.URL.Path)
		if !isWatch(r) {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				_, err = fmt.Fprintf(w, "answer %s", body)
			}
			if err != nil {
				t.Error(err)
			}
			return
		}
		if _, err := io.WriteString(w, "event\n"); err != nil {
			t.Error(err)
		}
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		<-r.Context().Done()
	}))
	t.Cleanup(b.Close)
	return b
}

func startProxy(t *testing.T, b *backend, heard func(Fault, *http.Request)) (*Proxy, *http.Client) {
	t.Helper()
	target, err := url.Parse(b.URL)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Start(target, b.Client().Transport, heard)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, client
}

const (
	podsPath = "/api/v1/pods"
	podPath  = "/api/v1/namespaces/ns/pods/p"
	bindPath = podPath + "/binding"
)

// send is one request without repeats by the client: it has a body.
func send(ctx context.Context, client *http.Client, at string) (code int, text string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, at, io.MultiReader(strings.NewReader("body")))
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	body, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	return response.StatusCode, string(body), err
}

func TestFaults(t *testing.T) {
	tests := map[string]struct {
		fault     Fault
		wantCode  int // 0: the connection breaks
		wantHeard int32
	}{
		"none":          {Fault{}, 200, 1},
		"conflict":      {Fault{Kind: Conflict, Class: Bind, Times: 1}, 409, 0},
		"too many":      {Fault{Kind: TooMany, Class: Bind, Times: 1}, 429, 0},
		"server error":  {Fault{Kind: ServerError, Class: Any, Times: 1}, 500, 0},
		"reset":         {Fault{Kind: Reset, Class: Bind, Times: 1}, 0, 0},
		"lost":          {Fault{Kind: Lost, Class: Bind, Times: 1}, 0, 1},
		"late":          {Fault{Kind: Late, Class: Bind, Times: 1, Delay: time.Millisecond}, 200, 1},
		"delayed":       {Fault{Kind: Delay, Class: Bind, Times: 1, Delay: time.Millisecond}, 200, 1},
		"cut":           {Fault{Kind: Cut, Class: Bind, Times: 1}, 0, 1},
		"its path":      {Fault{Kind: Reset, Class: Bind, Path: "/pods/p/", Times: 1}, 0, 0},
		"another path":  {Fault{Kind: Reset, Class: Bind, Path: "/pods/q/", Times: 1}, 200, 1},
		"another class": {Fault{Kind: Reset, Class: List, Times: 1}, 200, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := startBackend(t)
			p, client := startProxy(t, b, nil)
			if tt.fault.Kind != "" {
				p.Arm(tt.fault)
			}
			code, text, err := send(t.Context(), client, p.URL()+bindPath)
			if (err != nil) != (tt.wantCode == 0) || err == nil && code != tt.wantCode {
				t.Errorf("code %d, text %q, error %v, want code %d", code, text, err, tt.wantCode)
			}
			if tt.wantCode == http.StatusOK && text != "answer body" {
				t.Errorf("answer %q", text)
			}
			if got := b.requests.Load(); got != tt.wantHeard {
				t.Errorf("the server heard %d requests, want %d", got, tt.wantHeard)
			}
			p.Disarm()
			if code, _, err := send(t.Context(), client, p.URL()+bindPath); err != nil || code != http.StatusOK {
				t.Errorf("afterwards: code %d, error %v", code, err)
			}
		})
	}
}

// TestTimes: a fault happens as often as ordered, those behind it wait, and Counts knows.
func TestTimes(t *testing.T) {
	b := startBackend(t)
	p, client := startProxy(t, b, nil)
	p.Arm(Fault{Kind: Conflict, Class: Bind, Times: 2})
	p.Arm(Fault{Kind: ServerError, Class: Any, Times: 1})
	for i, want := range []int{409, 409, 500, 200} {
		if code, _, err := send(t.Context(), client, p.URL()+bindPath); err != nil || code != want {
			t.Errorf("request %d: code %d, error %v, want %d", i, code, err, want)
		}
	}
	if got := p.Counts(); got[Conflict] != 2 || got[ServerError] != 1 || len(got) != 2 {
		t.Errorf("counts %v", got)
	}
}

// TestDelayedRequestDiesWithItsClient: the server never hears of it.
func TestDelayedRequestDiesWithItsClient(t *testing.T) {
	b := startBackend(t)
	arrived := make(chan struct{})
	p, client := startProxy(t, b, func(Fault, *http.Request) { close(arrived) })
	p.Arm(Fault{Kind: Delay, Class: Bind, Times: 1, Delay: MaxDelay})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() {
		_, _, err := send(ctx, client, p.URL()+bindPath)
		result <- err
	}()
	<-arrived
	cancel()
	if err := <-result; err == nil {
		t.Error("an answer to a request that was given up")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if got := b.requests.Load(); got != 0 {
		t.Errorf("the server heard %d requests, want 0", got)
	}
}

func TestCutWatches(t *testing.T) {
	for _, abrupt := range []bool{false, true} {
		t.Run(fmt.Sprintf("abrupt %t", abrupt), func(t *testing.T) {
			p, client := startProxy(t, startBackend(t), nil)
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+podsPath+"?watch=1", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer closeBody(response.Body)
			lines := bufio.NewReader(response.Body)
			if line, err := lines.ReadString('\n'); err != nil || line != "event\n" {
				t.Fatalf("line %q, error %v", line, err)
			}
			if n := p.CutWatches(abrupt); n != 1 {
				t.Errorf("%d watches were cut, want 1", n)
			}
			_, err = lines.ReadString('\n')
			if clean := err == io.EOF; clean == abrupt { //nolint:errorlint // an unexpected EOF is another error
				t.Errorf("the stream ended with %v, abrupt %t", err, abrupt)
			}
		})
	}
}

// TestHang: a watch says nothing for as long as it hangs, and then what it had to say; others go on.
func TestHang(t *testing.T) {
	for _, path := range []string{podsPath, "/api/v1/nodes"} {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s cut %t", path, cut), func(t *testing.T) {
				p, client := startProxy(t, startBackend(t), nil)
				p.Hang(podsPath, time.Hour)
				started := time.Now()
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.URL()+path+"?watch=1", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				response, err := client.Do(r)
				if err != nil {
					t.Fatal(err)
				}
				defer closeBody(response.Body)
				lines := bufio.NewReader(response.Body)
				var said atomic.Pointer[string]
				done := make(chan struct{})
				go func() {
					defer close(done)
					if line, err := lines.ReadString('\n'); err == nil {
						said.Store(&line)
					}
				}()
				hangs := path == podsPath
				if !hangs {
					<-done
				}
				for range 20 { // what the watch does not say it had time for
					if _, _, err := send(t.Context(), client, p.URL()+bindPath); err != nil {
						t.Error(err)
					}
				}
				if got := said.Load() != nil; got == hangs {
					t.Errorf("the watch said something: %t, want %t", got, !hangs)
				}
				if cut {
					p.CutWatches(true)
				} else {
					p.Disarm()
				}
				<-done
				want := !hangs || !cut
				if got := said.Load() != nil; got != want {
					t.Errorf("in the end the watch said something: %t, want %t", got, want)
				}
				if got := p.Said(path, "", started, time.Now()); got != want {
					t.Errorf("Said %t, want %t", got, want)
				}
				if p.Said(path, "spec.nodeName=", started, time.Now()) || p.Said(path, "", started.Add(-time.Hour), started) {
					t.Error("Said speaks of another watch, or another time")
				}
			})
		}
	}
}

func TestClassOf(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/x"
	tests := map[string]Class{
		"POST " + bindPath:                       Bind,
		"GET " + podPath:                         Read,
		"GET " + podsPath:                        List,
		"GET " + podsPath + "?watch=true":        Watch,
		"GET " + podsPath + "?watch=false":       List,
		"PATCH " + podPath + "/status":           Write,
		"POST " + podPath + "/eviction":          Write,
		"GET " + lease:                           Lease,
		"PUT " + lease:                           Lease,
		"GET " + lease + "?watch=true":           Watch,
		"GET /apis/scheduling.x-k8s.io/v1alpha1": List,
	}
	for text, want := range tests {
		method, path, _ := strings.Cut(text, " ")
		if got := ClassOf(httptest.NewRequest(method, path, http.NoBody)); got != want {
			t.Errorf("%s is of class %s, want %s", text, got, want)
		}
	}
}
