package simulate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
)

// What the scheduler reads out of a pod must be what the oracle is told.
func TestPodsAskForWhatTheOracleIsTold(t *testing.T) {
	pods := append(demoPods(), benchPod(0), benchPod(1), benchPod(2))
	for i := range pods {
		p := &pods[i]
		object, err := p.Object()
		if err != nil {
			t.Fatal(err)
		}
		asked, err := request.FromPod(object)
		if err != nil || asked == nil || len(asked.Claims) != 1 {
			t.Errorf("%s: request = %+v, %v, want one claim", p.Name, asked, err)
			continue
		}
		got := asked.Claims[0]
		want := allocate.Claim{Container: got.Container, Phase: allocate.PhaseMain, Count: p.Ask.Count}
		switch p.Ask.Kind {
		case oracle.Whole:
			want.Kind = allocate.KindWhole
		case oracle.Share:
			want.Kind, want.VRAMBytes, want.ComputeMilli = allocate.KindShare, p.Ask.Bytes, p.Ask.ComputeMilli
			want.FractionPPB = p.Ask.Percent * 10_000_000
		case oracle.MIG:
			want.Kind, want.Profile = allocate.KindMIG, p.Ask.Profile
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: claim (-oracle's +request's):\n%s", p.Name, diff)
		}
	}
}

// The demo shows every kind of request, on every kind of machine.
func TestDemoPodsCoverWhatTheyMust(t *testing.T) {
	got := map[string]bool{}
	names := map[string]bool{}
	for _, p := range demoPods() {
		if names[p.Name] {
			t.Errorf("two pods are called %s", p.Name)
		}
		names[p.Name] = true
		got[p.Ask.String()] = true
		if p.Dialect != "" {
			got[p.Dialect] = true
		}
		if !p.Fits {
			got["pending"] = true
		}
	}
	for _, want := range []string{"1 GPU", "2 GPUs", "4 GPUs", "8 GPUs", "20 GiB of a GPU", "HAMi", "KAI", "1 MIG 1g.10gb", "pending"} {
		if !got[want] {
			t.Errorf("no pod of the demo is %q", want)
		}
	}
	if n := len(demoPods()); n < 20 || n > 'Z'-'A'+1 {
		t.Errorf("%d pods, want 20 to 26, one letter each", n)
	}
	nodes := 0
	for _, kind := range demoMachines() {
		nodes += kind.count
	}
	if nodes != 16 || len(demoMachines()) != 4 {
		t.Errorf("%d nodes of %d kinds, want 16 of 4", nodes, len(demoMachines()))
	}
}

func TestPodKeepsToItsMachine(t *testing.T) {
	p := only(&L40S, wholePod("p", 1))
	object, err := p.Object()
	if err != nil {
		t.Fatal(err)
	}
	n := node(t, &L40S, 0)
	for key, want := range object.Spec.NodeSelector {
		if got := n.Object.Labels[key]; got != want {
			t.Errorf("node label %s = %q, the pod selects %q", key, got, want)
		}
	}
	if len(object.Spec.NodeSelector) != 1 || object.Spec.SchedulerName != SchedulerName {
		t.Errorf("pod = %+v", object.Spec)
	}
}
