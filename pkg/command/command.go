package command

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	genericapiserver "k8s.io/apiserver/pkg/server"
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
	"k8s.io/kubernetes/pkg/scheduler"

	"github.com/gputopology/gpu-topology-scheduler/pkg/announce"
)

// informers is how the informers' metrics name this process, as kube-scheduler's do.
const informers = "kube-scheduler"

// New returns a command of the given name. busy says whether Bindings are open; it must be fast and safe for concurrent use.
func New(name string, busy func() bool, plugins ...app.Option) *cobra.Command {
	opts := options.NewOptions()
	cmd := &cobra.Command{
		Use:   name,
		Short: "Schedule pods, with the GPUs, their links and the fabric in view",
		Long: `A kube-scheduler with plugins for GPU clusters. It schedules the pods whose schedulerName is one of
its profiles', which the file given by --config describes, beside other schedulers.`,
		Args: cobra.NoArgs,
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

// run runs the scheduler until a signal or the loss of its lease ends it.
func run(cmd *cobra.Command, opts *options.Options, busy func() bool, plugins []app.Option) error {
	verflag.PrintAndExitIfRequested()
	gates := opts.ComponentGlobalsRegistry.FeatureGateFor(basecompatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(opts.Logs, gates); err != nil {
		return err
	}
	cliflag.PrintFlags(cmd.Flags())
	if opts.InformerName == nil {
		var err error
		if opts.InformerName, err = cache.NewInformerName(informers); err != nil {
			return err
		}
	}
	ctx := genericapiserver.SetupSignalContext()
	config, sched, err := app.Setup(ctx, opts, plugins...)
	if err != nil {
		return err
	}
	if g, ok := gates.(featuregate.MutableFeatureGate); ok {
		g.AddMetrics()
	}
	opts.ComponentGlobalsRegistry.AddMetrics()
	end, err := announceBehind(ctx, config.KubeConfig, sched, busy)
	if err != nil {
		return err
	}
	defer end()
	return app.Run(ctx, config, sched)
}

// announceBehind has the scheduler's events wait for Bindings, until end is called.
func announceBehind(ctx context.Context, config *rest.Config, sched *scheduler.Scheduler, busy func() bool) (end func(), err error) {
	client, err := clientset.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client of events: %w", err)
	}
	sink := &announce.Sink{EventSink: &events.EventSinkImpl{Interface: client.EventsV1()}, Line: announce.NewLine(busy)}
	broadcaster := events.NewBroadcaster(sink)
	if err := broadcaster.StartRecordingToSinkWithContext(ctx); err != nil {
		return nil, fmt.Errorf("write events: %w", err)
	}
	for name, profile := range sched.Profiles {
		sched.Profiles[name] = announce.Profile(profile, broadcaster.NewRecorder(scheme.Scheme, name))
	}
	return broadcaster.Shutdown, nil
}
