package faults

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// MaxDelay bounds Fault.Delay. It is shorter than the last fifth of the chaos test's leases, in which their holder sends no
// Binding any more.
const MaxDelay = 500 * time.Millisecond

// Kind is what happens to a request.
type Kind string

// The kinds; the package's documentation says what each does.
const (
	Conflict    Kind = "409"
	TooMany     Kind = "429"
	TooManyWait Kind = "429-retry-after"
	ServerError Kind = "500"
	Reset       Kind = "reset"
	Lost        Kind = "lost"
	Delay       Kind = "delay"
	Late        Kind = "late"
	Cut         Kind = "cut"
	// Hang is what Proxy.Hang does; it is never armed.
	Hang Kind = "hang"
)

// Class is a kind of requests.
type Class string

// The classes. Any is every request but those of leases and watches.
const (
	Any   Class = "any"
	Bind  Class = "bind"
	Read  Class = "read"
	Write Class = "write"
	List  Class = "list"
	Lease Class = "lease"
	Watch Class = "watch"
)

// Fault is an order.
type Fault struct {
	Kind  Kind
	Class Class
	// Path is part of the URL's path; empty for all.
	Path string
	// Times is how many requests it happens to, 1 or more.
	Times int
	// Delay is the wait of Delay and Late, at most MaxDelay.
	Delay time.Duration
}

// String is the order in one phrase.
func (f Fault) String() string {
	text := fmt.Sprintf("%s on the next %d of %s", f.Kind, f.Times, f.Class)
	if f.Path != "" {
		text += " " + f.Path
	}
	if f.Delay > 0 {
		text += " by " + f.Delay.String()
	}
	return text
}

// ClassOf returns the class of a request, never Any.
func ClassOf(r *http.Request) Class {
	switch path := r.URL.Path; {
	case strings.HasPrefix(path, "/apis/coordination.k8s.io/") && strings.Contains(path, "/leases"):
		if isWatch(r) {
			return Watch // of the leases of nodes
		}
		return Lease
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/binding"):
		return Bind
	case r.Method != http.MethodGet:
		return Write
	case isWatch(r):
		return Watch
	case strings.Contains(path, "/pods/"):
		return Read
	}
	return List
}

func isWatch(r *http.Request) bool {
	watch := r.URL.Query().Get("watch")
	return r.Method == http.MethodGet && watch != "" && watch != "false" && watch != "0"
}

func (f Fault) picks(class Class, path string) bool {
	if !strings.Contains(path, f.Path) {
		return false
	}
	return f.Class == class || f.Class == Any && class != Lease && class != Watch
}

// code is the status that the proxy answers with, 0 for kinds that are no answer.
func (f Fault) code() int {
	switch f.Kind {
	case Conflict:
		return http.StatusConflict
	case TooMany, TooManyWait:
		return http.StatusTooManyRequests
	case ServerError:
		return http.StatusInternalServerError
	default:
		return 0
	}
}
