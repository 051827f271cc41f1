package main

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
	"github.com/gputopology/gpu-topology-scheduler/test/perf/results"
)

// TestScaleOfBinaries measures two clusters that are small enough for a test, and kills a leader in the larger one.
func TestScaleOfBinaries(t *testing.T) {
	for _, name := range []string{"local-control-plane", "kwok", "gpu-topology-scheduler"} {
		checkout.Binary(t, name)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	o, err := parseScale([]string{
		"--binaries", filepath.Join(checkout.Root(t), "bin"), "--nodes", "60", "--small-nodes", "20", "--waiting", "40",
		"--rounds", "1", "--failovers", "1", "--variants", single + "," + ours, "--run", file,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := runScale(t.Context(), o, io.Discard); err != nil {
		t.Fatal(err)
	}
	runs, err := results.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	start := []results.Figure{
		results.SyncSeconds, results.MillisPerPod, results.RSSSynced, results.RSSBound, results.RSSPeak,
	}
	for _, want := range []struct {
		run, workload string
		variants      []string
		figures       []results.Figure
	}{
		{"60Nodes_120Pods, start", "20Nodes_40Pods", []string{single, ours}, start},
		{"60Nodes_120Pods, start", "60Nodes_120Pods", []string{single, ours}, append(start, results.Growth)},
		{"60Nodes_120Pods, failover", "60Nodes_120Pods", []string{single}, []results.Figure{results.ElectionSeconds, results.ReadSeconds, results.LeadToBindSeconds}},
	} {
		for i := range runs {
			if runs[i].Scope != want.run {
				continue
			}
			for _, v := range want.variants {
				row := runs[i].Find(want.workload, v)
				for _, f := range want.figures {
					if row == nil || row.Figures[f] <= 0 {
						t.Errorf("%s, %s, %s: %s is not measured: %v", want.run, want.workload, v, f, row)
					}
				}
			}
		}
	}
	if len(runs) != 2 {
		t.Errorf("%d runs, want 2: %v", len(runs), runs)
	}
}

func TestParseScale(t *testing.T) {
	tests := map[string]struct {
		args string
		want string // "" is no error
	}{
		"defaults":            {"", ""},
		"all":                 {"--nodes 20 --small-nodes 10 --running 3 --waiting 8 --rounds 1 --failovers 0 --variants crd --max-first-bind 10 --max-rss 1.3 --max-growth 1.3 --max-takeover 5", ""},
		"no nodes":            {"--small-nodes 0", "--small-nodes 0"},
		"smaller":             {"--nodes 999", "--nodes 999"},
		"negative":            {"--running -1", "--running -1"},
		"too many on a node":  {"--running 4", "--running 4"},
		"more than fits":      {"--nodes 3 --small-nodes 3 --waiting 16", "--waiting 16: must be gangs of 8, and no more than 10"},
		"a gang and a half":   {"--waiting 12", "--waiting 12"},
		"nobody":              {"--waiting 0", "--waiting 0"},
		"no rounds":           {"--rounds 0", "--rounds 0"},
		"negative failovers":  {"--failovers -1", "--failovers -1"},
		"an unknown variant":  {"--variants kai", `--variants "kai"`},
		"a variant for gangs": {"--variants native", `--variants "native"`},
		"an argument":         {"go", `arguments ["go"]`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseScale(strings.Fields(tc.args))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("parseScale = %v, want nil", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("parseScale = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

// TestRunningPods holds what createRunning writes against the oracle: all pods that it can give a node, on every kind of node.
func TestRunningPods(t *testing.T) {
	b := &bench{graphs: map[string]*topology.Node{}}
	var pods []v1.Pod
	for i := range runningGPUs {
		node, err := machine.Node(i)
		if err != nil {
			t.Fatal(err)
		}
		b.graphs[node.Object.Name] = node.Topology
		for k := range runningGPUs {
			first := occupiedBy(i, k)
			pod, err := runningPod(node.Object.Name, node.Topology, first, occupiedBy(i, k+1)-first)
			if err != nil {
				t.Fatal(err)
			}
			pods = append(pods, *pod)
		}
		if _, err := runningPod(node.Object.Name, node.Topology, occupiedBy(i, len(runningGPUs)), 2); err == nil {
			t.Error("a pod got 2 GPUs of which its node has 1")
		}
	}
	if err := checkCounts(pods); err != nil {
		t.Error(err)
	}
	if err := b.checkRecords(pods, &variant{plugins: true}); err != nil {
		t.Error(err)
	}
	if err := b.checkRecords(append(pods, pods[0]), &variant{plugins: true}); err == nil {
		t.Error("the same GPUs twice passed the check")
	}
}

func TestParseMemory(t *testing.T) {
	const status = "Name:\tscheduler\nVmHWM:\t    2048 kB\nVmRSS:\t    1536 kB\nThreads:\t9\n"
	got, err := parseMemory(status)
	if want := (memory{resident: 1.5, peak: 2}); err != nil || got != want {
		t.Errorf("parseMemory = %v, %v, want %v", got, err, want)
	}
	for name, text := range map[string]string{
		"empty": "", "no peak": "VmRSS:\t1 kB\n", "another unit": strings.Replace(status, "1536 kB", "1536 MB", 1),
		"no number": strings.Replace(status, "1536", "many", 1), "negative": strings.Replace(status, "1536", "-1", 1),
	} {
		if got, err := parseMemory(text); err == nil {
			t.Errorf("%s: parseMemory = %v, want an error", name, got)
		}
	}
}

func TestParseReading(t *testing.T) {
	const acquired, read = `I1130 %s 9 leaderelection.go:272] "Successfully acquired lease" lock="a/b"`, `I1130 %s 9 takeover.go:60] "Bound pods read before the first placement" pods=20000`
	log := func(first, second string) string {
		return "I1130 01:00:00.000000 9 server.go:1] \"Starting\"\n" + strings.Replace(acquired, "%s", first, 1) + "\n" +
			strings.Replace(read, "%s", second, 1) + "\n"
	}
	tests := map[string]struct {
		log  string
		want float64 // < 0 is an error
	}{
		"a second and a half": {log("02:00:01.250000", "02:00:02.750000"), 1.5},
		"over midnight":       {log("23:59:59.500000", "00:00:01.000000"), 1.5},
		"never acquired":      {strings.Replace(log("02:00:00.000000", "02:00:01.000000"), "acquired", "lost", 1), -1},
		"never read":          {strings.Replace(log("02:00:00.000000", "02:00:01.000000"), "Bound pods read", "Nothing read", 1), -1},
		"no time":             {log("soon", "02:00:00.000000"), -1},
		"JSON":                {`{"msg":"Successfully acquired lease"}`, -1},
		"empty":               {"", -1},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := parseReading(tc.log)
			if (err != nil) != (tc.want < 0) || err == nil && got != tc.want {
				t.Errorf("parseReading = %v, %v, want %v", got, err, tc.want)
			}
		})
	}
}

func TestFailoverMeasure(t *testing.T) {
	killed := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(seconds float64) time.Time { return killed.Add(time.Duration(seconds * float64(time.Second))) }
	seen := func(seconds ...float64) *binds {
		b := &binds{}
		for _, s := range seconds {
			b.times = append(b.times, at(s))
		}
		return b
	}
	tests := map[string]struct {
		acquired time.Time
		seen     *binds
		want     Failover
		wantErr  string
	}{
		"two of four by the new leader": {at(16), seen(-1, 0.01, 16.5, 17), Failover{ElectionSeconds: 16, BindSeconds: 0.5, Waiting: 2}, ""},
		"all by the new leader":         {at(16), seen(18, 19), Failover{ElectionSeconds: 16, BindSeconds: 2, Waiting: 2}, ""},
		"none by the new leader":        {at(16), seen(-1, 0.01), Failover{}, "all 2 pods were bound before"},
		"nobody took over":              {at(-20), seen(16.5), Failover{}, "nobody took over"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			acquired := metav1.NewMicroTime(tc.acquired)
			var got Failover
			err := got.measure(killed, &coordinationv1.Lease{Spec: coordinationv1.LeaseSpec{AcquireTime: &acquired}}, tc.seen)
			if (err != nil) != (tc.wantErr != "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Errorf("measure = %v, want an error with %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("measure (-want +got):\n%s", diff)
			}
		})
	}
}
