// Command gpu-topology-scheduler is a kube-scheduler with the GPU plugins of this module.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // client and workqueue metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // build version metric
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	_ "github.com/gputopology/gpu-topology-scheduler/pkg/apis/config" // makes plugin args known to the configuration decoder
	"github.com/gputopology/gpu-topology-scheduler/pkg/command"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/headroom"
	"github.com/gputopology/gpu-topology-scheduler/pkg/introspect"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/coscheduling"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/gputopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/nccltopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/topologyspread"
	"github.com/gputopology/gpu-topology-scheduler/pkg/preflight"
)

func main() {
	headroom.KeepUnless(os.LookupEnv, headroom.Default)
	state := introspect.DefaultAddress
	shared := engine.New(engine.Options{StateAddress: &state})
	cmd := command.New("gpu-topology-scheduler", shared.BindingsOpen,
		app.WithPlugin(gputopology.Name, gputopology.New(shared)),
		app.WithPlugin(gputopology.GateName, gputopology.NewGate(shared)),
		app.WithPlugin(coscheduling.Name, coscheduling.New(shared)),
		app.WithPlugin(nccltopology.Name, nccltopology.New(shared)),
		app.WithPlugin(topologyspread.Name, topologyspread.New(shared)),
	)
	addFlags(cmd, &state)
	cmd.SetContext(genericapiserver.SetupSignalContext())
	preflight.Wrap(cmd, shared.Elects)
	os.Exit(cli.Run(cmd))
}
