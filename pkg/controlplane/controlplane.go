package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"k8s.io/client-go/rest"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/access"
)

// ControlPlane is an etcd and a kube-apiserver on one data directory. Its
// methods may be called concurrently.
type ControlPlane struct {
	opts  Options
	admin *rest.Config

	turn chan struct{} // of size 1; full while a Stop or Restart is at work
	mu   sync.Mutex
	now  *running // the present or last run; guarded by mu
}

// Start runs a control plane and returns once /readyz is ok and the system
// namespaces and RBAC defaults exist. ctx bounds the start only: the control
// plane runs until Stop. An error names the directory, port or option at fault
// and leaves nothing running.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	o, err := o.clone()
	if err != nil {
		return nil, fmt.Errorf("control plane: %w", err)
	}
	run, err := start(ctx, &o)
	if err != nil {
		return nil, fmt.Errorf("control plane on %s: %w", o.DataDir, err)
	}
	o.Port = run.port
	return &ControlPlane{opts: o, admin: run.admin, turn: make(chan struct{}, 1), now: run}, nil
}

// RESTConfig returns a copy of a cluster-admin configuration without client
// side rate limit. It stays valid over Restart.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.admin) }

// Kubeconfig returns the path of the cluster-admin kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return layout(c.opts.DataDir).kubeconfig() }

// URL returns the API server's address, https://127.0.0.1:PORT.
func (c *ControlPlane) URL() string { return c.admin.Host }

// ServiceAccountConfig returns a configuration that authenticates as the
// service account namespace/name, which must exist, by a token from the
// TokenRequest API. The account has exactly the rights RBAC grants it.
func (c *ControlPlane) ServiceAccountConfig(ctx context.Context, namespace, name string) (*rest.Config, error) {
	return access.ServiceAccount(ctx, c.admin, namespace, name, access.DefaultTokenLife)
}

// Done is closed when the present run has ended and released everything. After
// Restart there is a new channel.
func (c *ControlPlane) Done() <-chan struct{} { return c.current().done }

// Err returns why the last run ended, once Done is closed: nil after Stop.
func (c *ControlPlane) Err() error {
	run := c.current()
	select {
	case <-run.done:
		return run.err
	default:
		return nil
	}
}

// Stop ends the control plane and waits until it has released its port and
// directory, or ctx ends; then the release goes on in the background. It
// returns the error of the run. Stopping twice is harmless.
func (c *ControlPlane) Stop(ctx context.Context) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	if err := c.end(ctx); err != nil {
		return err
	}
	return c.Err()
}

// Restart stops the control plane, if it still runs, and starts it again on the
// same directory and port. ctx bounds both. When it fails the control plane is
// stopped or stopping, and Restart may be called again.
func (c *ControlPlane) Restart(ctx context.Context) error {
	if err := c.take(ctx); err != nil {
		return err
	}
	defer c.give()
	if err := c.end(ctx); err != nil {
		return err
	}
	run, err := start(ctx, &c.opts)
	if err != nil {
		return fmt.Errorf("control plane on %s: restart: %w", c.opts.DataDir, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = run
	return nil
}

// take waits for other calls of Stop and Restart to end.
func (c *ControlPlane) take(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("control plane on %s: another Stop or Restart is at work: %w", c.opts.DataDir, ctx.Err())
	}
}

func (c *ControlPlane) give() { <-c.turn }

// end stops the present run and waits for its end, however it ends.
func (c *ControlPlane) end(ctx context.Context) error {
	run := c.current()
	run.cancel()
	select {
	case <-run.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("control plane on %s: port %d still serves: %w", c.opts.DataDir, run.port, ctx.Err())
	}
}

func (c *ControlPlane) current() *running {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// running is one run of etcd and kube-apiserver.
type running struct {
	port   int
	admin  *rest.Config
	etcd   *embed.Etcd
	cancel context.CancelFunc
	done   chan struct{}
	err    error // set before done is closed

	release []func() error // undone last to first when the run ends
}

// start brings a control plane up. On error everything it took is released.
func start(ctx context.Context, o *Options) (*running, error) {
	r := &running{done: make(chan struct{})}
	serve, err := r.prepare(ctx, o)
	if err != nil {
		return nil, errors.Join(err, r.unwind())
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	go r.run(serving, serve)
	if err := waitReady(ctx, r.admin, r.done); err != nil {
		cancel()
		<-r.done
		return nil, errors.Join(fmt.Errorf("kube-apiserver on %s: %w", address(r.port), err), r.err)
	}
	return r, nil
}

// prepare takes, in this order, gates, directory, port and etcd, and builds the
// API server.
func (r *running) prepare(ctx context.Context, o *Options) (serve func(context.Context) error, err error) {
	d := layout(o.DataDir)
	registry, undo, err := gates.acquire(o)
	if err != nil {
		return nil, err
	}
	r.release = append(r.release, undo)
	if err := r.takeDir(d); err != nil {
		return nil, err
	}
	socket, remove, err := etcdSocket(d)
	if err != nil {
		return nil, err
	}
	r.release = append(r.release, remove)
	server, err := apiServerOptions(registry, serverArgs(o, d, socket))
	if err != nil {
		return nil, err
	}
	ln, addr, err := listen(o.Port)
	if err != nil {
		return nil, err
	}
	r.release = append(r.release, func() error { return closeListener(ln) })
	r.port = addr.Port
	if r.admin, err = adminConfig(d, r.port); err != nil {
		return nil, err
	}
	if r.etcd, err = startEtcd(ctx, d.path("etcd"), socket, o.Log); err != nil {
		return nil, err
	}
	r.release = append(r.release, func() error { r.etcd.Close(); return nil })
	if serve, err = newAPIServer(ctx, server, ln, r.port); err != nil {
		return nil, fmt.Errorf("kube-apiserver: %w", err)
	}
	return serve, nil
}

// takeDir makes and locks the data directory and its certificates.
func (r *running) takeDir(d layout) error {
	if err := os.MkdirAll(string(d), 0o700); err != nil {
		return err
	}
	lock, err := fileutil.TryLockFile(d.path("lock"), os.O_CREATE|os.O_WRONLY, 0o600)
	if errors.Is(err, fileutil.ErrLocked) {
		return errors.New("another control plane runs on this directory")
	}
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	r.release = append(r.release, lock.Close)
	if err := ensurePKI(d); err != nil {
		return fmt.Errorf("certificates: %w", err)
	}
	return nil
}

// run serves until ctx ends or etcd or the API server fails, then releases
// everything and closes done.
func (r *running) run(ctx context.Context, serve func(context.Context) error) {
	defer close(r.done)
	defer r.cancel()
	served := make(chan error, 1)
	go func() { served <- serve(ctx) }()
	var err error
	select {
	case err = <-served:
		if err == nil && ctx.Err() == nil {
			err = errors.New("kube-apiserver ended by itself")
		}
	case failure := <-r.etcd.Err():
		r.cancel()
		err = errors.Join(fmt.Errorf("etcd: %w", failure), <-served)
	}
	r.err = errors.Join(err, r.unwind())
}

func (r *running) unwind() error {
	var errs []error
	for i := len(r.release) - 1; i >= 0; i-- {
		errs = append(errs, r.release[i]())
	}
	r.release = nil
	return errors.Join(errs...)
}

// closeListener closes ln unless the API server has done so already.
func closeListener(ln net.Listener) error {
	if err := ln.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// adminConfig writes the admin kubeconfig and returns its content.
func adminConfig(d layout, port int) (*rest.Config, error) {
	c := &rest.Config{Host: "https://" + address(port), QPS: -1}
	for _, part := range []struct {
		file string
		data *[]byte
	}{
		{"ca.crt", &c.CAData}, {"admin.crt", &c.CertData}, {"admin.key", &c.KeyData},
	} {
		data, err := os.ReadFile(d.pki(part.file))
		if err != nil {
			return nil, fmt.Errorf("certificates: %w", err)
		}
		*part.data = data
	}
	if err := access.WriteKubeconfig(d.kubeconfig(), c); err != nil {
		return nil, err
	}
	return c, nil
}
