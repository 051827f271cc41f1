package faults

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Proxy passes requests on to an API server, but for those that a Fault picks. It is safe for concurrent use.
type Proxy struct {
	target    *url.URL
	transport http.RoundTripper
	server    *http.Server
	address   string
	done      chan struct{}
	failed    error // set before done is closed
	// heard is told of every fault that happened; it must not block.
	heard func(Fault, *http.Request)
	// serving are the requests under way.
	serving sync.WaitGroup

	mu      sync.Mutex
	armed   []Fault
	hangs   []hang
	counts  map[Kind]int
	watches map[*watch]bool
	// said are the times in which watches said something, by topic and ascending.
	said map[topic][]span
}

// topic is what a watch is of.
type topic struct{ path, fieldSelector string }

// span is a time in which watches of a topic said something again and again.
type span struct{ from, to time.Time }

// silence is how long a watch that was heard may say nothing without a new span.
const silence = time.Second

// hang is an order of Hang.
type hang struct {
	path string
	// over is closed when the time is, end closes it earlier.
	over <-chan struct{}
	end  context.CancelFunc
}

// watch is a stream that passes the proxy.
type watch struct {
	of topic
	// ended is closed by cancel, or when the client goes away.
	ended  <-chan struct{}
	cancel context.CancelFunc
	// abrupt is set before cancel where the stream is not to end properly.
	abrupt bool
}

// Start runs a proxy on a free loopback port until Close. transport adds the credentials. heard may be nil.
func Start(target *url.URL, transport http.RoundTripper, heard func(Fault, *http.Request)) (*Proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if heard == nil {
		heard = func(Fault, *http.Request) {}
	}
	p := &Proxy{
		target: target, transport: transport, heard: heard, address: "http://" + listener.Addr().String(), done: make(chan struct{}),
		counts: map[Kind]int{}, watches: map[*watch]bool{}, said: map[topic][]span{},
	}
	p.server = &http.Server{Handler: p, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	go func() {
		defer close(p.done)
		p.failed = p.server.Serve(listener)
	}()
	return p, nil
}

// URL is where clients find the proxy.
func (p *Proxy) URL() string { return p.address }

// Close ends the proxy and every connection through it, and returns when nothing of them is left.
func (p *Proxy) Close() error {
	p.Disarm()
	err := p.server.Close()
	<-p.done
	p.serving.Wait()
	if !errors.Is(p.failed, http.ErrServerClosed) {
		err = errors.Join(err, p.failed)
	}
	return err
}

// Arm orders a fault. Those of one class happen in the order in which they were armed.
func (p *Proxy) Arm(f Fault) {
	f.Delay = min(f.Delay, MaxDelay)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = append(p.armed, f)
}

// Hang keeps back for a while what watches of that path say, and those that are opened meanwhile too. Their connections stay:
// nothing tells the client.
func (p *Proxy) Hang(path string, d time.Duration) {
	ctx, end := context.WithTimeout(context.Background(), d)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hangs = append(p.hangs, hang{path, ctx.Done(), end})
	p.counts[Hang]++
}

// hold waits while the watch hangs; false when it ended meanwhile.
func (p *Proxy) hold(w *watch) bool {
	p.mu.Lock()
	hangs := slices.Clone(p.hangs)
	p.mu.Unlock()
	for _, h := range hangs {
		if h.path != w.of.path {
			continue
		}
		select {
		case <-h.over:
		case <-w.ended:
			return false
		}
	}
	return true
}

// Said reports whether a watch of that path and field selector said anything to the client between two moments.
func (p *Proxy) Said(path, fieldSelector string, from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.said[topic{path, fieldSelector}], func(s span) bool { return !s.to.Before(from) && !s.from.After(to) })
}

// says notes that a watch is about to say something.
func (p *Proxy) says(w *watch) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	spans := p.said[w.of]
	if last := len(spans) - 1; last >= 0 && now.Sub(spans[last].to) < silence {
		spans[last].to = now
		return
	}
	p.said[w.of] = append(spans, span{now, now})
}

// Disarm withdraws every fault that has not happened, and ends every hang.
func (p *Proxy) Disarm() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = nil
	for _, h := range p.hangs {
		h.end()
	}
	p.hangs = nil
}

// CutWatches ends every watch, properly or, abrupt, as a broken connection does. It returns how many there were.
func (p *Proxy) CutWatches(abrupt bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.watches)
	for w := range p.watches {
		w.abrupt = abrupt
		w.cancel()
		delete(p.watches, w)
	}
	return n
}

// Counts returns how often each kind of fault happened.
func (p *Proxy) Counts() map[Kind]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// take finds the fault of a request and uses it up.
func (p *Proxy) take(class Class, path string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.armed {
		f := p.armed[i]
		if !f.picks(class, path) {
			continue
		}
		if p.armed[i].Times--; p.armed[i].Times <= 0 {
			p.armed = append(p.armed[:i:i], p.armed[i+1:]...)
		}
		p.counts[f.Kind]++
		return f
	}
	return Fault{}
}

// ServeHTTP is one request of the scheduler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.serving.Add(1)
	defer p.serving.Done()
	body, err := io.ReadAll(r.Body) // whole, so that the server notices when the client goes away
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	class := ClassOf(r)
	fault := p.take(class, r.URL.Path)
	if fault.Kind != "" {
		p.heard(fault, r)
	}
	switch fault.Kind {
	case Conflict, TooMany, TooManyWait, ServerError:
		answer(w, fault)
		return
	case Reset:
		panic(http.ErrAbortHandler)
	case Delay:
		wait(r.Context(), fault.Delay)
	default:
	}
	ctx, stream := r.Context(), (*watch)(nil)
	if class == Watch {
		ctx, stream = p.register(ctx, r)
		defer p.unregister(stream)
	}
	response, err := p.transport.RoundTrip(p.outgoing(ctx, r, body))
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer closeBody(response.Body)
	switch fault.Kind {
	case Lost:
		panic(http.ErrAbortHandler)
	case Late:
		wait(r.Context(), fault.Delay)
	case Cut:
		cut(w, response)
	default:
	}
	p.passBack(w, response, stream)
}

// closeBody ends an answer. What an answer that is over says on closing is nobody's concern.
func closeBody(body io.Closer) {
	if err := body.Close(); err != nil {
		return
	}
}

// outgoing is the request for the server.
func (p *Proxy) outgoing(ctx context.Context, r *http.Request, body []byte) *http.Request {
	out := r.Clone(ctx)
	out.RequestURI = ""
	out.URL.Scheme, out.URL.Host, out.Host = p.target.Scheme, p.target.Host, p.target.Host
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.Header.Del("Connection")
	return out
}

func (p *Proxy) register(ctx context.Context, r *http.Request) (context.Context, *watch) {
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{of: topic{r.URL.Path, r.URL.Query().Get("fieldSelector")}, ended: ctx.Done(), cancel: cancel}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watches[w] = true
	return ctx, w
}

func (p *Proxy) unregister(w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.watches, w)
	w.cancel()
}

// wait returns after d, and panics when the client goes away before.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		panic(http.ErrAbortHandler)
	}
}

// answer says what the API server would.
func answer(w http.ResponseWriter, f Fault) {
	code := f.code()
	reasons := map[int]metav1.StatusReason{
		http.StatusConflict: metav1.StatusReasonConflict, http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests,
		http.StatusInternalServerError: metav1.StatusReasonInternalError,
	}
	text, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reasons[code], Message: "a fault of the chaos test",
	})
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	if f.Kind == TooManyWait {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(code)
	if _, err := w.Write(text); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func passHeaders(w http.ResponseWriter, response *http.Response) {
	for key, values := range response.Header {
		w.Header()[key] = values
	}
	w.WriteHeader(response.StatusCode)
}

// cut passes half of an answer back.
func cut(w http.ResponseWriter, response *http.Response) {
	text, err := io.ReadAll(response.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	passHeaders(w, response)
	_, err = w.Write(text[:len(text)/2])
	if flusher, ok := w.(http.Flusher); ok && err == nil {
		flusher.Flush()
	}
	panic(http.ErrAbortHandler)
}

// passBack copies the answer as it comes. stream is nil but for watches.
func (p *Proxy) passBack(w http.ResponseWriter, response *http.Response, stream *watch) {
	passHeaders(w, response)
	flusher, ok := w.(http.Flusher)
	if !ok {
		panic("the server's ResponseWriter cannot flush")
	}
	if stream != nil {
		flusher.Flush() // a watch may say nothing for long
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := response.Body.Read(buffer)
		if stream != nil && !p.hold(stream) {
			n, err = 0, context.Canceled
		}
		if n > 0 {
			if stream != nil {
				p.says(stream)
			}
			if _, failed := w.Write(buffer[:n]); failed != nil {
				panic(http.ErrAbortHandler)
			}
			flusher.Flush()
		}
		switch {
		case err == nil:
		case errors.Is(err, io.EOF), stream != nil && errors.Is(err, context.Canceled) && !stream.abrupt:
			return
		default:
			panic(http.ErrAbortHandler)
		}
	}
}
