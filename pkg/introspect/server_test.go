package introspect

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func listen(t *testing.T, s Source) *Server {
	t.Helper()
	server, err := Listen("127.0.0.1:0", s)
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func TestServer(t *testing.T) {
	server := listen(t, &source{n: 1})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	client := &http.Client{Transport: &http.Transport{}}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		request, err := http.NewRequestWithContext(ctx, method, fmt.Sprintf("http://%s/v1/summary", server.Addr()), http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		r, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got := body(t, r.Body)
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
		if r.StatusCode != http.StatusOK || r.ContentLength <= 0 || (got == "") != (method == http.MethodHead) {
			t.Errorf("%s: %d, length %d, body %q", method, r.StatusCode, r.ContentLength, got)
		}
	}
	client.CloseIdleConnections()
	cancel()
	running.Wait()
	if c, err := net.Dial("tcp", server.Addr().String()); err == nil {
		t.Errorf("somebody listens after the end: %v", c.Close())
	}
}

// TestListenOnATakenPort: the error names the address.
func TestListenOnATakenPort(t *testing.T) {
	first := listen(t, &source{})
	_, err := Listen(Address(first.Addr().String()), &source{})
	if err == nil || !strings.Contains(err.Error(), first.Addr().String()) || !strings.Contains(err.Error(), "state endpoint") {
		t.Errorf("Listen: %v, want an error that names %s", err, first.Addr())
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}

// TestRunEndsWithItsListener: an end that nobody asked for is an error.
func TestRunEndsWithItsListener(t *testing.T) {
	server := listen(t, &source{})
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); err == nil {
		t.Error("Run: no error")
	}
}

// TestRunAnswersWhatIsUnderWay: the end waits for an answer that has begun.
func TestRunAnswersWhatIsUnderWay(t *testing.T) {
	s := &source{entered: make(chan struct{}), release: make(chan struct{})}
	server := listen(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	running.Go(func() {
		r, err := client.Get(fmt.Sprintf("http://%s/v1/summary", server.Addr()))
		if err != nil {
			t.Errorf("GET: %v", err)
			return
		}
		if got, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(got), `"cards":512`) {
			t.Errorf("body %q, %v", got, err)
		}
		if err := r.Body.Close(); err != nil {
			t.Error(err)
		}
	})
	<-s.entered
	cancel()
	close(s.release)
	running.Wait()
}
