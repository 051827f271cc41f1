package introspect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// readTimeout bounds the time to read a request.
	readTimeout = 5 * time.Second
	idleTimeout = 60 * time.Second
	// maxHeader bounds the header of a request, in bytes.
	maxHeader = 16 << 10
	// graceTimeout is how long answers under way may go on after the end.
	graceTimeout = 2 * time.Second
)

// Server answers requests on one address. Close it, or let Run end.
type Server struct {
	listener net.Listener
	http     *http.Server
}

// Listen opens the address, which must not be empty, so that a port that is taken is found at once. It answers nobody until Run.
func Listen(a Address, s Source) (*Server, error) {
	listener, err := net.Listen("tcp", string(a))
	if err != nil {
		return nil, fmt.Errorf("state endpoint: %w", err)
	}
	return &Server{listener: listener, http: &http.Server{
		Handler: Handler(s), ReadTimeout: readTimeout, ReadHeaderTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}}, nil
}

// Addr is the address that is listened on, with the port that was chosen where the address left it open.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Close stops listening where Run is not going to be called.
func (s *Server) Close() error { return s.listener.Close() }

// Run answers requests until ctx ends, and returns once nothing listens any more and no connection is open: nil after ctx,
// else what ended it. Answers under way are given graceTimeout, then they are cut off.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceTimeout)
		defer cancel()
		if err := s.http.Shutdown(grace); err != nil {
			stopped <- s.http.Close()
			return
		}
		stopped <- nil
	})
	err := s.http.Serve(s.listener)
	if stop() {
		return errors.Join(err, s.http.Close()) // it ended by itself
	}
	err = <-stopped
	if err != nil {
		return fmt.Errorf("state endpoint: %w", err)
	}
	return nil
}
