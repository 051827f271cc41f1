package controlplane

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// Options says what to run. The zero value of every field but DataDir is the
// default of kube-apiserver.
type Options struct {
	// DataDir holds etcd's data, certificates and the admin kubeconfig. It is
	// made when absent, with mode 0700. Required.
	DataDir string
	// Port is the loopback port of the API server; 0 takes a free one.
	Port int
	// FeatureGates are kube-apiserver's, by name. They are process-wide: see the
	// package comment.
	FeatureGates map[string]bool
	// EmulatedVersion, "1.34" for example, makes the server offer the APIs and
	// gate defaults of that minor version. Empty means its own version;
	// kube-apiserver emulates up to three minor versions back.
	EmulatedVersion string
	// RuntimeConfig switches API versions on and off, as --runtime-config:
	// "scheduling.k8s.io/v1beta1": "true".
	RuntimeConfig map[string]string
	// ExtraArgs are further kube-apiserver flags. They stand after this
	// package's own, so that they win.
	ExtraArgs []string
	// Log receives etcd's warnings; nil drops them. kube-apiserver logs to klog.
	Log io.Writer
}

// clone returns a copy with an absolute DataDir that shares no map or slice with o.
func (o Options) clone() (Options, error) {
	if o.DataDir == "" {
		return o, errors.New("option DataDir: must not be empty")
	}
	dir, err := filepath.Abs(o.DataDir)
	if err != nil {
		return o, fmt.Errorf("option DataDir %q: %w", cut(o.DataDir), err)
	}
	if o.Port < 0 || o.Port > 65535 {
		return o, fmt.Errorf("option Port %d: must be between 0 and 65535", o.Port)
	}
	o.DataDir = dir
	o.FeatureGates = maps.Clone(o.FeatureGates)
	o.RuntimeConfig = maps.Clone(o.RuntimeConfig)
	o.ExtraArgs = slices.Clone(o.ExtraArgs)
	if o.Log == nil {
		o.Log = io.Discard
	}
	return o, nil
}

// admissionOff names the default admission plugins that add something which
// only a kube-controller-manager loop supplies or takes away again:
//
//	ServiceAccount                 wants a "default" service account in the namespace before its first pod
//	TaintNodesByCondition          taints every new node not-ready until the node controller has seen it
//	StorageObjectInUseProtection   finalizer on claims and volumes
//	PodGroupProtection             finalizer on native pod groups
const admissionOff = "ServiceAccount,TaintNodesByCondition,StorageObjectInUseProtection,PodGroupProtection"

// watchGrace bounds the time in which a stopping server ends open watches, a few
// hundred a second.
const watchGrace = 5 * time.Second

// serverArgs returns the kube-apiserver flags for o; socket is etcd's.
func serverArgs(o *Options, d layout, socket string) []string {
	args := []string{
		"--etcd-servers=unix://" + socket,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--external-hostname=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/24",
		"--tls-cert-file=" + d.pki("apiserver.crt"),
		"--tls-private-key-file=" + d.pki("apiserver.key"),
		"--client-ca-file=" + d.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-signing-key-file=" + d.pki("sa.key"),
		"--service-account-key-file=" + d.pki("sa.pub"),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		// Without a period an open watch holds a stopping server for a minute.
		"--shutdown-watch-termination-grace-period=" + watchGrace.String(),
		"--disable-admission-plugins=" + admissionOff,
	}
	for _, k := range slices.Sorted(maps.Keys(o.RuntimeConfig)) {
		args = append(args, "--runtime-config="+k+"="+o.RuntimeConfig[k])
	}
	return append(args, o.ExtraArgs...)
}

// layout is the data directory.
type layout string

func (d layout) path(name string) string { return filepath.Join(string(d), name) }
func (d layout) pki(name string) string  { return filepath.Join(string(d), "pki", name) }
func (d layout) kubeconfig() string      { return d.path("admin.kubeconfig") }

func address(port int) string { return "127.0.0.1:" + strconv.Itoa(port) }

// cut shortens a value taken from outside for use in an error.
func cut(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return s[:most] + "..."
}
