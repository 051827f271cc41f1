package introspect

import (
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// Concurrent is how many answers are put together at a time; each may need a few MiB for its page.
	Concurrent = 4
	// Delivered is how many answers of more than a chunk are delivered at a time. Their readers may be slow, and each answer is
	// kept until its reader has it.
	Delivered = 16
)

// Source is what is served. Its methods may be called from several goroutines at a time, must not block on anything but
// short locks, and give copies that nobody changes.
type Source interface {
	Summary() Summary
	// Pods, Nodes and Gangs return at most limit items that come after the given token, "" for the first ones, and the
	// token of the last item where there are more, else "". The slices may be nil.
	Pods(after string, limit int) (items []Pod, next string)
	Nodes(after string, limit int) (items []Node, next string)
	Gangs(after string, limit int) (items []Gang, next string)
	Sweep() Sweep
}

// answer reads what a path serves. The error is the client's.
type answer func(r *http.Request) (any, error)

// handler puts answers together in its slots, so that readers who take their time hold none.
type handler struct {
	answers map[string]answer
	// slots has a token for each answer that is being put together, deliveries one for each large answer that is being sent.
	slots, deliveries chan struct{}
}

// Handler returns the endpoint's handler.
func Handler(s Source) http.Handler {
	return &handler{
		answers: map[string]answer{
			"/v1/summary": single(s.Summary),
			"/v1/pods":    list(s.Pods),
			"/v1/nodes":   list(s.Nodes),
			"/v1/gangs":   list(s.Gangs),
			"/v1/sweep":   single(s.Sweep),
		},
		slots: make(chan struct{}, Concurrent), deliveries: make(chan struct{}, Delivered),
	}
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	read, known := h.answers[r.URL.Path]
	switch {
	case !literal(r.Host):
		fail(w, http.StatusForbidden, fmt.Errorf("host %q is no IP address and not \"localhost\": a name may be made to point here by somebody else's web page", short(r.Host)))
	case !known:
		fail(w, http.StatusNotFound, fmt.Errorf("there is no %q", short(r.URL.Path)))
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		fail(w, http.StatusMethodNotAllowed, fmt.Errorf("method %q is not allowed: what is served is read-only", short(r.Method)))
	default:
		h.serve(w, r, read)
	}
}

// literal reports whether a request was sent to an address and not to a name, with or without a port: a name that is not
// the machine's own can be pointed at it, and a browser then lets the page that did so read the answer (DNS rebinding).
func literal(hostport string) bool {
	host := (&url.URL{Host: hostport}).Hostname()
	_, err := netip.ParseAddr(host)
	return err == nil || strings.EqualFold(host, "localhost")
}

func (h *handler) serve(w http.ResponseWriter, r *http.Request, read answer) {
	if !taken(h.slots) {
		busy(w, fmt.Errorf("%d requests are being answered already", Concurrent))
		return
	}
	body, code := h.put(read, r)
	if len(body) > chunk {
		if !taken(h.deliveries) {
			busy(w, fmt.Errorf("%d long answers are being read already", Delivered))
			return
		}
		defer func() { <-h.deliveries }()
	}
	deliver(w, code, body)
}

func taken(tokens chan struct{}) bool {
	select {
	case tokens <- struct{}{}:
		return true
	default:
		return false
	}
}

// put puts an answer together and gives the slot back.
func (h *handler) put(read answer, r *http.Request) ([]byte, int) {
	defer func() { <-h.slots }()
	value, err := read(r)
	if err != nil {
		return encode(problem{err.Error()}, http.StatusBadRequest)
	}
	return encode(value, http.StatusOK)
}

func single[T any](read func() T) answer {
	return func(r *http.Request) (any, error) {
		if _, err := parameters(r); err != nil {
			return nil, err
		}
		return read(), nil
	}
}

func list[T any](read func(after string, limit int) ([]T, string)) answer {
	return func(r *http.Request) (any, error) {
		values, err := parameters(r, limitParameter, continueParameter)
		if err != nil {
			return nil, err
		}
		limit, err := limitOf(values)
		if err != nil {
			return nil, err
		}
		items, next := read(values.Get(continueParameter), limit)
		if items == nil {
			items = []T{}
		}
		return page[T]{Items: items, Continue: next}, nil
	}
}

const (
	limitParameter    = "limit"
	continueParameter = "continue"
)

// parameters returns the query, which may have the given parameters once each.
func parameters(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("query %q cannot be read", short(r.URL.RawQuery))
	}
	for name, given := range values {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("parameter %q is not known here", short(name))
		case len(given) > 1:
			return nil, fmt.Errorf("parameter %q is given %d times", name, len(given))
		}
	}
	return values, nil
}

func limitOf(values url.Values) (int, error) {
	value := values.Get(limitParameter)
	if value == "" {
		return DefaultLimit, nil
	}
	limit, err := strconv.Atoi(value)
	if err != nil || limit < 1 || limit > MaxLimit {
		return 0, fmt.Errorf("limit %q is not a number from 1 to %d", short(value), MaxLimit)
	}
	return limit, nil
}
