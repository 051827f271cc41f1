package process

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	readyPoll    = 50 * time.Millisecond
	readyRequest = 5 * time.Second
)

// ready waits for the readiness line and then for url, where asked for.
func (p *Process) ready(ctx context.Context, url string) error {
	select {
	case <-p.out.ready:
	case <-p.done:
		select {
		case <-p.out.ready: // all output is read when done: it was ready, and ended right after
		default:
			return p.ended()
		}
	case <-ctx.Done():
		return fmt.Errorf("not ready: no line %q: %w", p.out.prefix, ctx.Err())
	}
	if url == "" {
		return nil
	}
	return p.waitURL(ctx, url)
}

func (p *Process) waitURL(ctx context.Context, url string) error {
	// The child made its certificate for itself; loopback is what we trust.
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: readyRequest}
	tick := time.NewTicker(readyPoll)
	defer tick.Stop()
	for {
		last := ask(ctx, client, url)
		if last == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.done:
			return p.ended()
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w (last answer: %w)", ctx.Err(), last)
		}
	}
}

func ask(ctx context.Context, client *http.Client, url string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	return nil
}

// ended describes a child that ended before it was ready.
func (p *Process) ended() error {
	if p.err != nil {
		return fmt.Errorf("ended before it was ready: %w", p.err)
	}
	return errors.New("ended before it was ready: exit status 0")
}

// FreePort returns a loopback TCP port that is free now. Nothing keeps it free:
// a child that finds it taken ends, and Start says so.
func FreePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return 0, errors.Join(fmt.Errorf("listener %v is not TCP", ln.Addr()), ln.Close())
	}
	return addr.Port, ln.Close()
}
