package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/test/chaos/checker"
)

// steps is what a script decides, as text.
func steps(seed uint64, n int) []string {
	s := newScript(seed)
	var out []string
	for range n {
		next := s.next()
		out = append(out, fmt.Sprintf("%d %s %v %v", next.number, next.text, next.about, next.pause))
	}
	return out
}

// TestScriptIsDeterministic: the same seed decides the same, whatever became of what it decided, and another one does not.
func TestScriptIsDeterministic(t *testing.T) {
	const n = 2000
	first := steps(1, n)
	if d := cmp.Diff(first, steps(1, n)); d != "" {
		t.Errorf("(-first +second):\n%s", d)
	}
	if slices.Equal(first[:10], steps(2, 10)) {
		t.Error("two seeds decide the same")
	}
}

// TestScriptDecidesEverything: no choice is dead, and the cluster is neither empty nor drowned.
func TestScriptDecidesEverything(t *testing.T) {
	s := newScript(7)
	seen := map[string]bool{}
	words := []string{
		"create pod pod", "create pod share", "create gang", "ends", "delete", "member", "PodGroup gang", "vanishes", "returns", "as another machine",
		"falls sick", "offers", "are back", "record of", "on the next", "watches are cut", "kill -9", "SIGSTOP", "cut the standby off from pods", "let the standby's watches", ": watches of pods hang", "the leader may not bind", "cut the leader off from pods", "create pods",
	}
	for range 20_000 {
		text := s.next().text
		for _, w := range words {
			if strings.Contains(text, w) {
				seen[w] = true
			}
		}
		demand := 0
		for _, j := range s.jobs {
			demand += j.demand()
		}
		if demand > 3*s.capacity {
			t.Fatalf("jobs want %d cards of %d", demand, s.capacity)
		}
	}
	for _, w := range words {
		if !seen[w] {
			t.Errorf("no step says %q", w)
		}
	}
}

const goodRecord = `{"v":1,"node":"n1","cards":[{"index":0,"uuid":"GPU-n1-0-0","sliceMask":"0x1"},{"index":1,"uuid":"GPU-n1-0-1","sliceMask":"0x1"}]}`

// TestDamages: every damage is the JSON of an annotation, none is a record like the one before.
func TestDamages(t *testing.T) {
	for _, how := range damages {
		text, ok := damaged(goodRecord, how)
		var annotation *string
		if err := json.Unmarshal([]byte(text), &annotation); err != nil || !ok {
			t.Errorf("%s: %q, %t, error %v", how, text, ok, err)
		}
		if annotation != nil && (*annotation == goodRecord || slices.Equal(cardsIn(*annotation), cardsIn(goodRecord)) && strings.Contains(*annotation, `"n1"`) && strings.Contains(*annotation, `"v":1`)) {
			t.Errorf("%s leaves a good record: %s", how, *annotation)
		}
	}
	if _, ok := damaged("{", "removed"); ok {
		t.Error("a damaged record is damaged again")
	}
}

// TestMachines: what the driver writes is what the checker reads.
func TestMachines(t *testing.T) {
	m := &machine{name: "n", cards: 4, mib: 1024, series: 2, gone: []int{1}, sick: []int{3}, withheld: 1}
	got, err := checker.FromNode(m.node())
	want := checker.Node{Name: "n", Open: true, Offered: 2, Cards: []checker.NodeCard{
		{UUID: "GPU-n-2-0", VRAMBytes: 1 << 30, Healthy: true}, {UUID: "GPU-n-2-2", VRAMBytes: 1 << 30, Healthy: true}, {UUID: "GPU-n-2-3", VRAMBytes: 1 << 30},
	}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, d)
	}
	for _, j := range []*job{{name: "p", cards: 3}, {name: "s", cards: 2, mib: 5}, {name: "g", size: 2, quorum: 1, cards: 1}} {
		p := checker.FromPod((&running{job: j}).pod(j.pods()[0]))
		if p.Cards != j.cards || p.VRAMBytes != j.mib*mib || (p.Group != "") != (j.size > 0) {
			t.Errorf("job %+v is read as %+v", j, p)
		}
	}
}

// TestMinimalLog: only lines about the names, the last ones, with a count of the others.
func TestMinimalLog(t *testing.T) {
	var file bytes.Buffer
	l := &eventLog{started: time.Now(), file: &file}
	for i := range 5 {
		l.add(didStep, []string{"ns/a"}, "a %d", i)
		l.add(sawPod, []string{"ns/b"}, "b %d", i)
	}
	text := l.minimal([]string{"ns/a", "n1"}, 2)
	for want, has := range map[string]bool{"a 4": true, "a 3": true, "a 2": false, "b 4": false, "3 earlier lines": true} {
		if strings.Contains(text, want) != has {
			t.Errorf("log has %q: %t, want %t:\n%s", want, !has, has, text)
		}
	}
	if n := strings.Count(file.String(), "\n"); n != 10 {
		t.Errorf("the file has %d lines, want 10", n)
	}
}

func TestClassify(t *testing.T) {
	served := "I Attempting to acquire leader lease...\n"
	tests := map[string]struct {
		killed bool
		log    string
		want   string
	}{
		"killed":          {true, served, exitKilled},
		"panic":           {false, served + "panic: nil map\ngoroutine 1", exitCrash},
		"panic on kill":   {true, served + "fatal error: concurrent map writes\n", exitCrash},
		"lost its lease":  {false, served + "E leaderelection.go: leaderelection lost\n", exitLostLease},
		"no API server":   {false, `E "command failed" err="preflight"`, exitNoStart},
		"upstream":        {false, served + `"Scheduler cache is corrupted and can badly affect scheduling decisions"`, exitUpstream},
		"without a cause": {false, served + "I all is well\n", exitCrash},
		"talk of a panic": {true, served + `I "no panic: at all"`, exitKilled},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := classify(tt.killed, []byte(tt.log)); got.kind != tt.want {
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

// TestChaosConfig: the times are those of this test, and the rest is what ships.
func TestChaosConfig(t *testing.T) {
	var config map[string]any
	if err := yaml.Unmarshal(chaosConfig(t, "/kubeconfig", false), &config); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprint(config)
	for _, want := range []string{"leaseDuration:3s", "reconcilePeriod:1s", "turnTimeout:3s", "ignoredResourceGroups:[gputopology.io]", "kubeconfig:/kubeconfig"} {
		if !strings.Contains(text, want) {
			t.Errorf("the configuration lacks %s: %s", want, text)
		}
	}
	if err := setArgs(config, map[string]map[string]any{"Nobody": {"x": 1}}); err == nil {
		t.Error("arguments of a plugin that does not run are no error")
	}
}

// TestThirds: memory that grows shows, and a short life says nothing.
func TestThirds(t *testing.T) {
	l := &life{}
	for i := range longLife {
		if _, _, ok := l.thirds(); ok {
			t.Fatalf("%d samples are enough", i)
		}
		l.rss = append(l.rss, int64(i))
	}
	if first, last, ok := l.thirds(); !ok || first >= last {
		t.Errorf("thirds %d and %d, %t", first, last, ok)
	}
}

// TestNeedlessRepairs: what a sweep finds late is a violation, what the chaos broke is none.
func TestNeedlessRepairs(t *testing.T) {
	s := newStats()
	s.lives["a"] = &life{metrics: checker.Metrics{Repairs: checker.Counts{"record-edited": 3, "quarantine": 1, "orphan": 0}}}
	none := func(string, checker.Repair) bool { return false }
	if bad := s.needless(none); bad != nil {
		t.Error(bad)
	}
	s.lives["b"] = &life{
		metrics: checker.Metrics{Repairs: checker.Counts{"orphan": 2}},
		sweep:   checker.Sweep{Last: []checker.Repair{{Kind: "orphan", Pod: "ns/p", Node: "n1", Detail: "why"}, {Kind: "orphan", Pod: "ns/q"}}},
	}
	unheard := func(life string, r checker.Repair) bool { return life == "b" && r.Pod == "ns/q" }
	if bad := s.needless(unheard); len(bad) != 1 || !strings.Contains(bad[0].Text, "ns/p") {
		t.Errorf("violations %v, want one that names the pod", bad)
	}
}

// TestSpan: what the log knows of a pod's life, and whether it is over.
func TestSpan(t *testing.T) {
	l := &eventLog{started: time.Now(), file: &bytes.Buffer{}}
	add := func(text string) {
		l.add(sawPod, []string{"ns/a", "n1"}, "%s", text)
		l.add(sawPod, []string{"ns/b"}, "ns/b is gone")
		l.add(didStep, []string{"ns/a"}, "ns/a ends")
	}
	if _, _, over := l.span("ns/a"); over {
		t.Error("a pod that was never seen is over")
	}
	add("ns/a is pending")
	add("ns/a is bound on n1")
	first, last, over := l.span("ns/a")
	if first == 0 || first >= last || over {
		t.Errorf("a bound pod's life from %v to %v, over %t", first, last, over)
	}
	add("ns/a is gone on n1")
	if again, end, over := l.span("ns/a"); again != first || end <= last || !over {
		t.Errorf("a life from %v to %v, over %t, want one from %v to after %v that is over", again, end, over, first, last)
	}
}
