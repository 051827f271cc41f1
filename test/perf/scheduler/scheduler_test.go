package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	_ "k8s.io/component-base/logs/json/register" // the JSON format of -logging-format
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	perf "k8s.io/kubernetes/test/integration/scheduler_perf"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	_ "github.com/gputopology/gpu-topology-scheduler/pkg/apis/config" // makes plugin args known to the configuration decoder
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/coscheduling"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/gputopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/nccltopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/topologyspread"
)

// The files of the workloads.
const (
	gpuCases    = "performance-config.yaml"
	spreadCases = "performance-config-spread.yaml"
)

// podsPatience bounds the wait for the pods of one workload.
const podsPatience = 20 * time.Minute

func TestMain(m *testing.M) {
	if err := errors.Join(perf.InitTests(), findFixtures()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// findFixtures tells kube-apiserver's test server where its source is, which it reads certificates from. A binary built
// with -trimpath knows paths below the module cache only; the test server then looks at the variables that Bazel sets.
func findFixtures() error {
	_, file, _, ok := goruntime.Caller(0)
	if ok && filepath.IsAbs(file) {
		return nil
	}
	cache, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("go env GOMODCACHE: %w", err)
	}
	return errors.Join(os.Setenv("TEST_SRCDIR", strings.TrimSpace(string(cache))), os.Setenv("TEST_WORKSPACE", "."))
}

func BenchmarkPerfScheduling(b *testing.B) { runCases(b, gpuCases, "gpu") }

func BenchmarkPerfSchedulingSpread(b *testing.B) { runCases(b, spreadCases, "spread") }

func runCases(b *testing.B, file, topic string) {
	r := &run{}
	perf.RunBenchmarkPerfScheduling(b, file, topic, r.registry(),
		perf.WithPreRunFn(r.begin),
		perf.WithPrepareFn(installCRD),
		perf.WithNodeUpdateFn(resetMetrics),
		perf.WithPodsSchedulingTimeout(podsPatience),
	)
}

// resetMetrics follows every createNodes. scheduler_perf reads the scheduler's histograms as they are at the end, with what pods
// before the measured ones have left in them.
func resetMetrics(ktesting.TContext, *scheduler.Scheduler, *perf.Workload, *v1.NodeList) error {
	legacyregistry.Reset()
	return nil
}

// run is what one scheduler has of its own. The benchmark runs one workload after the other, with one plugin registry.
type run struct {
	shared *engine.Engine
}

// begin is called before each scheduler is built.
func (r *run) begin(ktesting.TContext, *perf.Workload) (func(), error) {
	r.shared = engine.New(engine.Options{})
	return nil, nil
}

// registry has the plugins of cmd/gpu-topology-scheduler.
func (r *run) registry() frameworkruntime.Registry {
	return frameworkruntime.Registry{
		gputopology.Name:     r.plugin(gputopology.New),
		gputopology.GateName: r.plugin(gputopology.NewGate),
		coscheduling.Name:    r.plugin(coscheduling.New),
		nccltopology.Name:    r.plugin(nccltopology.New),
		topologyspread.Name:  r.plugin(topologyspread.New),
	}
}

// plugin defers the look at the engine until a scheduler is built.
func (r *run) plugin(factory func(*engine.Engine) frameworkruntime.PluginFactory) frameworkruntime.PluginFactory {
	return func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		return factory(r.shared)(ctx, args, handle)
	}
}
