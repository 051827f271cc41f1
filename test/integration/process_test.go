package integration

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/access"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

// startBinary runs bin/gpu-topology-scheduler with the shipped configuration, of which only the kubeconfig is changed. args
// are further flags.
func (c *cluster) startBinary(t *testing.T, config *rest.Config, change func(map[string]any), args ...string) *process.Scheduler {
	t.Helper()
	path := c.schedulerConfig(t, config, change)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s, err := process.StartScheduler(ctx, process.SchedulerConfig{
		Binary:  checkout.Binary(t, "gpu-topology-scheduler"),
		Args:    append([]string{"--config=" + path}, args...),
		LogFile: c.schedulerLog(),
	})
	if err != nil {
		t.Fatalf("start the scheduler: %v", err)
	}
	t.Cleanup(func() {
		stopping, stopped := context.WithTimeout(context.Background(), patience)
		defer stopped()
		if err := s.Stop(stopping); err != nil {
			t.Logf("stop the scheduler: %v", err)
		}
	})
	return s
}

// schedulerConfig writes the shipped configuration, of which only the kubeconfig and what change does is changed.
func (c *cluster) schedulerConfig(t *testing.T, config *rest.Config, change func(map[string]any)) string {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := access.WriteKubeconfig(kubeconfig, config); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(checkout.SchedulerConfig(t))
	if err != nil {
		t.Fatal(err)
	}
	var parsed map[string]any
	if err := yaml.Unmarshal(data, &parsed); err != nil {
		t.Fatal(err)
	}
	connection, ok := parsed["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		parsed["clientConnection"] = connection
	}
	connection["kubeconfig"] = kubeconfig
	if change != nil {
		change(parsed)
	}
	if data, err = yaml.Marshal(parsed); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "scheduler-config.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// schedulerLog is the log of the scheduler that startBinary started last.
func (c *cluster) schedulerLog() string { return filepath.Join(c.dir, "scheduler.log") }

// withoutLeaderElection is for tests that start one scheduler and need no lease.
func withoutLeaderElection(config map[string]any) {
	config["leaderElection"] = map[string]any{"leaderElect": false}
}

// TestKilledSchedulerLeaksNothing kills the scheduler with SIGKILL in the middle of a burst and starts it again.
func TestKilledSchedulerLeaksNothing(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, nodesN8s(30)...)
	first := c.startBinary(t, c.config, withoutLeaderElection)
	pods, names := podsOf("p", 200, kit.GPUs(1))
	for i, p := range pods {
		c.createPods(t, p)
		if i == 120 {
			if err := first.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	second := c.startBinary(t, c.config, withoutLeaderElection)
	c.waitBound(t, names...)
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	c.check(t, startReplica(t, c.config, replicaOptions{}))
}

// TestOlderAPIServers: the binary needs no flags against any supported server.
func TestOlderAPIServers(t *testing.T) {
	for _, version := range []string{"1.34", "1.35", "1.36", "1.37"} {
		t.Run(version, func(t *testing.T) {
			c := startCluster(t, func(p *process.ControlPlaneConfig) { p.EmulatedVersion = version })
			c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
			c.startBinary(t, c.config, withoutLeaderElection)
			pods, names := podsOf("p", 3, kit.GPUs(2))
			c.createPods(t, pods...)
			c.waitBound(t, names...)
			for _, name := range names {
				c.cardsOf(t, name)
			}
		})
	}
}
