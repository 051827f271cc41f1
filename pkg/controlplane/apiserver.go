package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// readyPoll is the pause between two looks at a server that is starting.
const readyPoll = 50 * time.Millisecond

// apiServerOptions parses args into kube-apiserver options that use registry
// instead of the process-wide one.
func apiServerOptions(registry basecompatibility.ComponentGlobalsRegistry, args []string) (*options.ServerRunOptions, error) {
	s := options.NewServerRunOptions()
	s.GenericServerRunOptions.ComponentGlobalsRegistry = registry
	flags := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	for _, fs := range s.Flags().FlagSets {
		flags.AddFlagSet(fs)
	}
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	if flags.Changed("feature-gates") || flags.Changed("emulated-version") {
		return nil, errors.New("option ExtraArgs: --feature-gates and --emulated-version are the options FeatureGates and EmulatedVersion")
	}
	if err := registry.Set(); err != nil {
		return nil, fmt.Errorf("kube-apiserver flags: %w", err)
	}
	return s, nil
}

// listen opens a loopback port; 0 takes a free one.
func listen(port int) (net.Listener, *net.TCPAddr, error) {
	ln, err := net.Listen("tcp", address(port))
	if err != nil {
		return nil, nil, fmt.Errorf("port %d: %w", port, err)
	}
	addr, ok := ln.Addr().(*net.TCPAddr)
	if !ok {
		return nil, nil, errors.Join(fmt.Errorf("port %d: %v is not a TCP address", port, ln.Addr()), ln.Close())
	}
	return ln, addr, nil
}

// newAPIServer builds a kube-apiserver that serves on ln, which listens on
// port, once run is called.
func newAPIServer(ctx context.Context, s *options.ServerRunOptions, ln net.Listener, port int) (run func(context.Context) error, err error) {
	s.SecureServing.Listener = ln
	s.SecureServing.BindPort = port
	s.SecureServing.ExternalAddress = net.IPv4(127, 0, 0, 1)
	completed, err := s.Complete(ctx)
	if err != nil {
		return nil, err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return nil, err
	}
	ready, err := config.Complete()
	if err != nil {
		return nil, err
	}
	chain, err := app.CreateServerChain(ready)
	if err != nil {
		return nil, err
	}
	prepared, err := chain.PrepareRun()
	if err != nil {
		chain.GenericAPIServer.Destroy()
		return nil, err
	}
	return prepared.Run, nil
}

// waitReady returns nil once the server behind config is ready and has made
// its system namespaces. When ctx ends first, the error says what was missing.
func waitReady(ctx context.Context, config *rest.Config, ended <-chan struct{}) error {
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	var missing error
	err = wait.PollUntilContextCancel(ctx, readyPoll, true, func(ctx context.Context) (bool, error) {
		select {
		case <-ended:
			return false, errors.New("ended while starting")
		default:
		}
		missing = readiness(ctx, client)
		return missing == nil, nil
	})
	if err != nil && missing != nil {
		return fmt.Errorf("not ready: %w (last answer: %w)", err, missing)
	}
	return err
}

func readiness(ctx context.Context, client kubernetes.Interface) error {
	body, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").Param("verbose", "").DoRaw(ctx)
	if err != nil {
		var status *apierrors.StatusError
		if errors.As(err, &status) && len(body) > 0 {
			return fmt.Errorf("/readyz: %s", body)
		}
		return fmt.Errorf("/readyz: %w", err)
	}
	for _, ns := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
		if _, err := client.CoreV1().Namespaces().Get(ctx, ns, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("namespace %s: %w", ns, err)
		}
	}
	return nil
}
