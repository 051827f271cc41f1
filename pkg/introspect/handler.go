package introspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
)

// Concurrent is how many requests are answered at a time; each may need a few MiB for its page.
const Concurrent = 4

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

// Handler returns the endpoint's handler.
func Handler(s Source) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v1/summary", single(s.Summary))
	mux.Handle("/v1/pods", list(s.Pods))
	mux.Handle("/v1/nodes", list(s.Nodes))
	mux.Handle("/v1/gangs", list(s.Gangs))
	mux.Handle("/v1/sweep", single(s.Sweep))
	slots := make(chan struct{}, Concurrent)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A path that is not clean would be redirected by the mux.
		if _, pattern := mux.Handler(r); pattern == "" || r.URL.Path != path.Clean(r.URL.Path) {
			fail(w, http.StatusNotFound, fmt.Errorf("there is no %q", short(r.URL.Path)))
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			fail(w, http.StatusMethodNotAllowed, fmt.Errorf("method %q is not allowed: what is served is read-only", short(r.Method)))
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			mux.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			fail(w, http.StatusServiceUnavailable, fmt.Errorf("%d requests are being answered already", Concurrent))
		}
	})
}

func single[T any](read func() T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, err := parameters(r); err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}
		reply(w, http.StatusOK, read())
	}
}

func list[T any](read func(after string, limit int) ([]T, string)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		values, err := parameters(r, limitParameter, continueParameter)
		if err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}
		limit, err := limitOf(values)
		if err != nil {
			fail(w, http.StatusBadRequest, err)
			return
		}
		items, next := read(values.Get(continueParameter), limit)
		if items == nil {
			items = []T{}
		}
		reply(w, http.StatusOK, page[T]{Items: items, Continue: next})
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

func fail(w http.ResponseWriter, code int, err error) {
	reply(w, code, struct {
		Error string `json:"error"`
	}{err.Error()})
}

// reply writes a value as JSON. The length is known before the first byte, so that a client can tell a body that was cut off.
func reply(w http.ResponseWriter, code int, value any) {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		code = http.StatusInternalServerError
		body.Reset()
		body.WriteString(`{"error":"the answer cannot be written as JSON"}` + "\n")
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	if _, err := body.WriteTo(w); err != nil {
		return // the client has left; a HEAD has no body to write
	}
}
