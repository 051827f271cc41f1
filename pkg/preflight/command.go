package preflight

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	componentbaseconfig "k8s.io/component-base/config"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

const (
	gatesFlag = "feature-gates"
	// patience is how long an API server that does not answer is asked again before the process gives up and
	// leaves the next try to whoever restarts it.
	patience = 2 * time.Minute
)

// Wrap makes the scheduler command run preflight after its flags are parsed and before its gates are set.
// The command is changed in place. Where it will elect a leader, elects is told how.
func Wrap(cmd *cobra.Command, elects func(componentbaseconfig.LeaderElectionConfiguration)) {
	setGates := cmd.PersistentPreRunE
	cmd.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if runsScheduler(c.Flags()) {
			if err := run(c.Context(), c.Flags(), elects); err != nil {
				return err
			}
		}
		if setGates == nil {
			return nil
		}
		return setGates(c, args)
	}
}

// runsScheduler is false for calls that only print or write something and need no API server.
func runsScheduler(flags *pflag.FlagSet) bool {
	for _, name := range []string{"version", "write-config-to", "emulated-version"} {
		if f := flags.Lookup(name); f != nil && f.Changed {
			return false
		}
	}
	return true
}

func run(ctx context.Context, flags *pflag.FlagSet, elects func(componentbaseconfig.LeaderElectionConfiguration)) error {
	if ctx == nil {
		ctx = context.Background()
	}
	config, err := clientConfig(flags)
	if err != nil {
		return fmt.Errorf("preflight: %w", err)
	}
	how, err := election(flags)
	if err != nil {
		return fmt.Errorf("preflight: %w", err)
	}
	if how.LeaderElect {
		elects(how)
	}
	client, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("preflight: %w", err)
	}
	missing, err := ask(ctx, client)
	if err != nil {
		return fmt.Errorf("preflight: %w", err)
	}
	if err := turnOff(ctx, flags, missing, "The API server lacks APIs that the scheduler would wait for"); err != nil {
		return err
	}
	return turnOff(ctx, flags, Costly(), "Gates whose cost outweighs their use here")
}

// ask repeats the question while the API server does not answer: a scheduler often starts before it.
func ask(ctx context.Context, client Discovery) ([]featuregate.Feature, error) {
	logger := klog.FromContext(ctx)
	var missing []featuregate.Feature
	var last error
	backoff := wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Cap: 5 * time.Second, Steps: 1 << 16}
	deadline, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// ExponentialBackoffWithContext would give up at the first delay of Cap.
	err := backoff.DelayFunc().Until(deadline, true, true, func(context.Context) (bool, error) {
		missing, last = Missing(client, Requirements())
		if last != nil {
			logger.Info("The API server does not answer yet", "err", last)
		}
		return last == nil, nil
	})
	if err != nil {
		if last == nil {
			last = err
		}
		return nil, fmt.Errorf("no answer in %s: %w", patience, last)
	}
	return missing, nil
}

// turnOff adds Gate=false for every gate that the user did not name, and says so and why in one line.
func turnOff(ctx context.Context, flags *pflag.FlagSet, gates []featuregate.Feature, why string) error {
	logger := klog.FromContext(ctx)
	flag := flags.Lookup(gatesFlag)
	if flag == nil {
		return fmt.Errorf("preflight: the scheduler has no flag --%s", gatesFlag)
	}
	named := namedGates(flag.Value.String())
	prefix := ""
	if strings.Contains(flag.Value.String(), "kube:") && !strings.HasPrefix(flag.Value.String(), ":") {
		prefix = "kube:"
	}
	var off, kept []string
	for _, gate := range gates {
		if named[string(gate)] {
			kept = append(kept, string(gate))
			continue
		}
		if err := flags.Set(gatesFlag, prefix+string(gate)+"=false"); err != nil {
			return fmt.Errorf("preflight: turn off gate %s: %w", gate, err)
		}
		off = append(off, string(gate))
	}
	if len(off)+len(kept) > 0 {
		logger.Info(why, "gatesTurnedOff", off, "gatesSetByUser", kept)
	}
	return nil
}

// namedGates reads the names out of a --feature-gates value such as ":A=true,kube:B=false".
func namedGates(value string) map[string]bool {
	named := map[string]bool{}
	for _, pair := range strings.Split(value, ",") {
		if _, after, found := strings.Cut(pair, ":"); found {
			pair = after
		}
		if name, _, found := strings.Cut(pair, "="); found {
			named[strings.TrimSpace(name)] = true
		}
	}
	return named
}

// clientConfig finds the API server as the scheduler itself will: --master and --kubeconfig, the kubeconfig named in
// the file of --config, else the service account of the pod.
func clientConfig(flags *pflag.FlagSet) (*rest.Config, error) {
	kubeconfig := flagValue(flags, "kubeconfig")
	if path := flagValue(flags, "config"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--config: %w", err)
		}
		config, err := options.LoadConfigFromFile(klog.Background(), path)
		if err != nil {
			return nil, fmt.Errorf("--config %s: %w", path, err)
		}
		// Like upstream: with a configuration file, --kubeconfig is not looked at.
		kubeconfig = config.ClientConnection.Kubeconfig
	}
	return clientcmd.BuildConfigFromFlags(flagValue(flags, "master"), kubeconfig)
}

// election is how the scheduler will elect a leader: by the file of --config, and by each flag that is given; without a file
// by the flags and their defaults.
func election(flags *pflag.FlagSet) (componentbaseconfig.LeaderElectionConfiguration, error) {
	var how componentbaseconfig.LeaderElectionConfiguration
	path := flagValue(flags, "config")
	if path != "" {
		config, err := options.LoadConfigFromFile(klog.Background(), path)
		if err != nil {
			return how, fmt.Errorf("--config %s: %w", path, err)
		}
		how = config.LeaderElection
	}
	given := func(name string) (string, bool) {
		flag := flags.Lookup(name)
		if flag == nil || path != "" && !flag.Changed {
			return "", false
		}
		return flag.Value.String(), true
	}
	if v, ok := given("leader-elect"); ok {
		how.LeaderElect = v == "true" // what a bool flag prints
	}
	if v, ok := given("leader-elect-resource-name"); ok {
		how.ResourceName = v
	}
	if v, ok := given("leader-elect-resource-namespace"); ok {
		how.ResourceNamespace = v
	}
	return how, nil
}

func flagValue(flags *pflag.FlagSet, name string) string {
	if f := flags.Lookup(name); f != nil {
		return f.Value.String()
	}
	return ""
}
