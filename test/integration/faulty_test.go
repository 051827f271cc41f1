package integration

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// faultyAPI stands between the scheduler and the API server. Everything passes unless lose or refuse picks it.
type faultyAPI struct {
	mu sync.Mutex
	// lose picks requests that reach the server but whose answer is cut off.
	lose func(*http.Request) bool
	// drop picks requests that are cut off before they reach the server.
	drop func(*http.Request) bool
	// lost counts the requests that lose or drop picked.
	lost int
}

// startFaultyAPI returns the proxy and a configuration that goes through it.
func (c *cluster) startFaultyAPI(t *testing.T, f *faultyAPI) *rest.Config {
	t.Helper()
	target, err := url.Parse(c.config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(c.config)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.FlushInterval = -1
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	proxy.ModifyResponse = func(response *http.Response) error {
		if f.picks(f.loser(), response.Request) {
			return http.ErrAbortHandler
		}
		return nil
	}
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if f.picks(f.dropper(), r) {
				panic(http.ErrAbortHandler)
			}
			proxy.ServeHTTP(w, r)
		}),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	listener := listen(t)
	var serving sync.WaitGroup
	serving.Add(1)
	go func() { defer serving.Done(); _ = server.Serve(listener) }() // ends with ErrServerClosed
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Errorf("close the proxy: %v", err)
		}
		serving.Wait()
	})
	return &rest.Config{Host: "http://" + listener.Addr().String()}
}

func (f *faultyAPI) loser() func(*http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lose
}

func (f *faultyAPI) dropper() func(*http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.drop
}

func (f *faultyAPI) picks(pick func(*http.Request) bool, r *http.Request) bool {
	if pick == nil || !pick(r) {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost++
	return true
}

// set changes the faults while the proxy runs.
func (f *faultyAPI) set(lose, drop func(*http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose, f.drop = lose, drop
}

func (f *faultyAPI) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.lost
}

// isBind picks the Binding of a pod whose name has the prefix.
func isBind(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") &&
			strings.Contains(r.URL.Path, "/pods/"+prefix)
	}
}

// isRead picks a read of a single pod whose name has the prefix.
func isRead(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/pods/"+prefix)
	}
}

// statusAnswer is what the API server would say with that code.
func statusAnswer(r *http.Request, code int) *http.Response {
	if r.Body != nil {
		_ = r.Body.Close() // a transport must, and nothing of it was read
	}
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError, http.StatusForbidden: metav1.StatusReasonForbidden,
	}
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reasons[code], Message: "a fault of the test",
	})
	if err != nil {
		panic(err)
	}
	return &http.Response{
		Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": []string{"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}
