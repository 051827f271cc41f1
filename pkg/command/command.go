package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"
	"k8s.io/component-base/version/verflag"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/gputopology/gpu-topology-scheduler/pkg/announce"
)

// informers is how the informers' metrics name this process, as kube-scheduler's do.
const informers = "kube-scheduler"

// New returns a command of the given name. It runs until its context ends, as SetContext or ExecuteContext give it, or the lease
// is lost. busy says whether Bindings are open; it must be fast and safe for concurrent use.
func New(name string, busy func() bool, plugins ...app.Option) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:   name,
		Short: "Schedule pods, with the GPUs, their links and the fabric in view",
		Long: `A kube-scheduler with plugins for GPU clusters, to run beside other schedulers. It schedules the pods whose
schedulerName is that of one of its profiles. The file given by --config describes the profiles; without
one there is only the default profile of kube-scheduler, which has none of the plugins.`,
		Args: noArguments,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			return opts.ComponentGlobalsRegistry.Set()
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd, opts, busy, plugins)
		},
	}
	sets := opts.Flags
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), name, logs.SkipLoggingConfigurationFlags())
	for _, set := range sets.FlagSets {
		cmd.Flags().AddFlagSet(set)
	}
	width, _, err := term.TerminalSize(cmd.OutOrStdout())
	if err != nil {
		width = 0 // no terminal: lines are not wrapped
	}
	cliflag.SetUsageAndHelpFunc(cmd, *sets, width)
	if err = cmd.MarkFlagFilename("config", "yaml", "yml", "json"); err != nil {
		klog.Background().Error(err, "No completion of file names")
	}
	return cmd
}

// noArguments refuses arguments but empty ones, which templates of manifests leave.
func noArguments(cmd *cobra.Command, args []string) error {
	for _, arg := range args {
		if arg != "" {
			return fmt.Errorf("argument %.64q: %s takes flags only", arg, cmd.CommandPath())
		}
	}
	return nil
}

// run sets the scheduler up and runs it.
func run(cmd *cobra.Command, opts *options.Options, busy func() bool, plugins []app.Option) error {
	verflag.PrintAndExitIfRequested()
	gates, ok := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent).(featuregate.MutableFeatureGate)
	if !ok {
		return errors.New("the process has no feature gates of Kubernetes")
	}
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	if opts.InformerName == nil {
		var err error
		if opts.InformerName, err = cache.NewInformerName(informers); err != nil {
			return err
		}
		defer opts.InformerName.Release()
	}
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	config, sched, err := app.Setup(ctx, opts, plugins...)
	if err != nil {
		return err
	}
	gates.AddMetrics()
	opts.ComponentGlobalsRegistry.AddMetrics()
	stop, err := announceBehind(ctx, config.KubeConfig, sched.Profiles, busy)
	if err != nil {
		return err
	}
	defer stop()
	return app.Run(ctx, config, sched)
}

// announceBehind has the events of the profiles wait for Bindings, until stop is called. The end of ctx does not stop them: until
// the process ends, which with leader election is at once, what waits is written.
func announceBehind(ctx context.Context, config *rest.Config, profiles profile.Map, busy func() bool) (stop func(), err error) {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of events: %w", err)
	}
	broadcaster := events.NewBroadcaster(&announce.Sink{
		To: &events.EventSinkImpl{Interface: client.EventsV1()}, Limiter: announce.NewLimiter(busy),
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		cancel()
		return nil, fmt.Errorf("write events: %w", err)
	}
	for name, p := range profiles {
		profiles[name] = announce.WithRecorder(p, broadcaster.NewRecorder(scheme.Scheme, name))
	}
	return func() {
		broadcaster.Shutdown()
		cancel()
	}, nil
}
