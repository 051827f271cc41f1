package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// maxSocketPath is the length of sun_path without its final zero on the
// stingiest Unix (104 bytes on Darwin and the BSDs, 108 on Linux).
const maxSocketPath = 103

// plainPath matches what stays itself in a URL and in a list of flag values.
var plainPath = regexp.MustCompile(`^[\w/.-]+$`)

// etcdSocket returns a path for etcd's socket and what removes it. It stands
// in the data directory, or in a temporary one when that path cannot name a
// socket. Either directory is closed to other users, which is the only access
// control of this etcd.
func etcdSocket(d layout) (path string, remove func() error, err error) {
	if path = d.path("etcd.sock"); canNameSocket(path) {
		return path, func() error { return nil }, nil
	}
	dir, err := os.MkdirTemp("", "etcd-")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	if path = filepath.Join(dir, "etcd.sock"); !canNameSocket(path) {
		return "", nil, errors.Join(fmt.Errorf("socket path %q: longer than %d bytes or with characters other than %s; set TMPDIR",
			path, maxSocketPath, plainPath), remove())
	}
	return path, remove, nil
}

func canNameSocket(path string) bool {
	return len(path) <= maxSocketPath && plainPath.MatchString(path)
}

// startEtcd starts a single-member etcd on dir that serves clients on socket,
// and waits until it answers or ctx ends.
func startEtcd(ctx context.Context, dir, socket string, log io.Writer) (*embed.Etcd, error) {
	cfg := embed.NewConfig()
	cfg.Dir = dir
	cfg.Name = "local"
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	cfg.ListenPeerUrls = nil
	client := url.URL{Scheme: "unix", Path: socket}
	cfg.ListenClientUrls = []url.URL{client}
	cfg.AdvertiseClientUrls = []url.URL{client}
	cfg.EnableGRPCGateway = false
	// A lone member elects itself after one election timeout.
	cfg.TickMs, cfg.ElectionMs = 20, 200
	cfg.UnsafeNoFsync = true
	cfg.QuotaBackendBytes = 8 << 30
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(warnings(log))

	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, fmt.Errorf("etcd on %s: %w", dir, err)
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err = <-e.Err():
	case <-e.Server.StopNotify():
		err = errors.New("stopped while starting")
	case <-ctx.Done():
		err = ctx.Err()
	}
	e.Close()
	return nil, fmt.Errorf("etcd on %s: not ready: %w", dir, err)
}

// warnings returns a logger that writes warnings and worse to w, a line each.
func warnings(w io.Writer) *zap.Logger {
	enc := zap.NewProductionEncoderConfig()
	enc.EncodeTime = zapcore.ISO8601TimeEncoder
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(w)), zapcore.WarnLevel))
}
