package chaos

import (
	"context"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup/crd"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

var (
	seedFlag     = flag.Uint64("chaos.seed", 1, "seed of TestChaos")
	steadyFlag   = flag.Bool("chaos.steady", false, "let both replicas of TestChaos live for the whole run, which shows whether their memory grows: no kills, no pauses")
	profilesFlag = flag.String("chaos.profiles", "", "an existing folder that gets a heap profile a minute of each replica of TestChaos")
	durationFlag = flag.Duration("chaos.duration", time.Minute, "how long TestChaos makes chaos; the waits for rest come on top")
)

const (
	// roundLength is the longest time without a look at the cluster at rest.
	roundLength = time.Minute
	// stepTime is about what a step takes by itself. Durations are counted in steps and their pauses, not by a clock, so that
	// a seed decides at which step a round ends.
	stepTime = 20 * time.Millisecond
)

// TestChaos is what the package is about.
func TestChaos(t *testing.T) {
	scheduler, controlPlane := checkout.Binary(t, "gpu-topology-scheduler"), checkout.Binary(t, "local-control-plane")
	dir, err := os.MkdirTemp("", "chaos-") //nolint:usetesting // the logs of a run that failed are kept
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after everything that writes there has ended
		if t.Failed() {
			return // the report names it
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	d := startCluster(t, controlPlane, dir)
	d.steady = *steadyFlag
	for i := range replicas {
		d.replicas = append(d.replicas, newReplica(t, i, scheduler, dir, d))
	}
	d.view.ask(d.heardOfNodes)
	d.background(func(ctx context.Context) error { d.stats.sample(ctx, d.replicas); return nil })
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)

	s := newScript(*seedFlag)
	s.steady = *steadyFlag
	for _, m := range s.machines {
		d.applyNode(m.copy())
	}
	defer d.print(*seedFlag, *durationFlag)
	if d.steady {
		d.rest(client, "before the first fault")
	}
	if d.steady || *profilesFlag != "" {
		d.background(func(ctx context.Context) error { return d.watchMemory(ctx, *profilesFlag) })
	}
	for left := *durationFlag; left > 0; {
		round := min(left, roundLength)
		left -= round
		d.calm = false
		for spent := time.Duration(0); spent < round; {
			next := s.next()
			spent += next.pause + stepTime
			d.steps = next.number
			d.perform(next)
		}
		d.calmDown()
		d.rest(client, "what is broken is still broken")
		d.heal(s.heal())
		d.rest(client, "everything is whole")
	}
	d.drain()
	d.rest(client, "nothing is left")
	d.empty(client)
}

// startCluster runs a control plane and the watches of it until the test ends.
func startCluster(t *testing.T, binary, dir string) *driver {
	t.Helper()
	started := time.Now()
	file, err := os.Create(filepath.Join(dir, "events.log"))
	if err != nil {
		t.Fatal(err)
	}
	log := &eventLog{started: started, file: file}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cp, err := process.StartControlPlane(ctx, process.ControlPlaneConfig{
		Binary: binary, DataDir: filepath.Join(dir, "control-plane"), LogFile: filepath.Join(dir, "control-plane.log"),
	})
	if err != nil {
		t.Fatalf("start the control plane: %v", err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(context.Background()); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	admin, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	admin.QPS = -1
	client, groups := kubernetes.NewForConfigOrDie(admin), dynamic.NewForConfigOrDie(admin)
	d := &driver{
		t: t, ctx: t.Context(), admin: admin, dir: dir, client: client, groups: groups.Resource(podGroups).Namespace(namespace), log: log,
		view: newView(client, log, started), stats: newStats(), jobs: map[string]*running{}, lateGroups: map[string]time.Duration{},
		machines: map[string]*machine{}, started: started,
	}
	_, err = client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	d.must(err, "create namespace")
	d.must(crd.Install(ctx, groups), "install PodGroups")
	d.background(d.view.followPods)
	d.background(d.view.followNodes)
	return d
}

// background runs something until the test ends, and fails the test where it does not last that long.
func (d *driver) background(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := run(ctx); err != nil {
			d.view.violate("test", nil, "%v", err)
		}
	})
	d.t.Cleanup(func() { cancel(); done.Wait() })
}
