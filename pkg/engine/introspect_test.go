package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/introspect"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// nodeWith gives the ledger a node of a shape.
func nodeWith(t testing.TB, l *ledger.Ledger, name string, spec topology.Spec) *topology.Node {
	t.Helper()
	node, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	l.SetNode(ledger.NodeName(name), node)
	return node
}

// wholeCards are shares of whole cards of a node.
func wholeCards(node *topology.Node, cards ...int) []allocate.CardShare {
	var out []allocate.CardShare
	for _, i := range cards {
		c := node.Card(i)
		out = append(out, allocate.CardShare{
			Index: i, UUID: c.UUID, SliceMask: allocate.WholeCard, VRAMBytes: c.VRAMBytes, ComputeMilli: allocate.MilliPerCard,
		})
	}
	return out
}

func hold(uid, node string, cards []allocate.CardShare) ledger.Holding {
	return ledger.Holding{UID: ledger.PodUID(uid), Pod: "ns/" + uid, Node: ledger.NodeName(node), Cards: cards}
}

func adopt(t testing.TB, l *ledger.Ledger, h ledger.Holding) {
	t.Helper()
	if err := l.Adopt(h); err != nil {
		t.Fatal(err)
	}
}

// stateWorld has a node of every kind, and pods in every stage.
func stateWorld(t *testing.T) *Engine {
	t.Helper()
	e := New(Options{})
	l := e.ledger
	a := nodeWith(t, l, "a", kit.N8s("a"))
	adopt(t, l, hold("u1", "a", wholeCards(a, 0, 1)))
	if err := l.Assume(hold("u2", "a", wholeCards(a, 2))); err != nil {
		t.Fatal(err)
	}
	if err := l.Assume(hold("u3", "a", []allocate.CardShare{{Index: 3, UUID: "GPU-a-3", SliceMask: 0xff, VRAMBytes: 10 << 30, ComputeMilli: 250}})); err != nil {
		t.Fatal(err)
	}
	l.Suspect("u3")
	adopt(t, l, ledger.Holding{UID: "foreign", Pod: "ns/foreign", Node: "a", UnknownCards: 1})

	sick := kit.N8s("b")
	sick.Cards[6].Healthy, sick.Cards[7].Healthy = false, false
	b := nodeWith(t, l, "b", sick)
	adopt(t, l, hold("u4", "b", wholeCards(b, 7)))

	c := nodeWith(t, l, "c", kit.N2("c"))
	adopt(t, l, hold("u5", "c", wholeCards(c, 0)))
	adopt(t, l, hold("u6", "c", wholeCards(c, 0))) // over-committed: quarantine

	cooling := hold("u7", "d", wholeCards(nodeWith(t, l, "d", kit.N1("d")), 0))
	cooling.UID, cooling.Pod = observe.CoolingPrefix+cooling.UID, observe.CoolingPrefix+cooling.Pod
	adopt(t, l, cooling)
	l.SetNode("e", nil)
	adopt(t, l, ledger.Holding{UID: "mig", Pod: "ns/mig", Node: "gone", UnknownMIG: []ledger.ProfileCount{{Profile: "1g.10gb", Count: 2}}})
	return e
}

func TestState(t *testing.T) {
	s := inside{stateWorld(t)}
	s.placing.Store(true)
	want := introspect.Summary{Leading: true, Nodes: 5, Cards: 19, Held: 4 + 1 + 1 + 1, Free: 3 + 6, Quarantined: 2, Suspects: 1}
	if d := cmp.Diff(want, s.Summary()); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
	}
	conflict := "card 0 (GPU-c-0) is over-committed by pods ns/u5 and ns/u6"
	wantNodes := []introspect.Node{
		{Name: "a", Cards: 8, Held: 4, Foreign: 1, Free: 3, Conflicts: []string{}},
		{Name: "b", Cards: 8, Held: 1, Unusable: 1, Free: 6, Conflicts: []string{}},
		{Name: "c", Cards: 2, Held: 1, Closed: 1, Quarantine: conflict, Conflicts: []string{conflict}},
		{Name: "d", Cards: 1, Held: 1, Conflicts: []string{}},
		{Name: "e", Conflicts: []string{}},
	}
	nodes, next := s.Nodes("", 100)
	if d := cmp.Diff(wantNodes, nodes); d != "" || next != "" {
		t.Errorf("nodes, next %q (-want +got):\n%s", next, d)
	}
	pods, next := s.Pods("", 100)
	var stages []string
	for _, p := range pods {
		stages = append(stages, fmt.Sprintf("%s/%s %s %d cooling=%t", p.Node, p.UID, p.Stage, len(p.Cards), p.Cooling))
	}
	wantStages := []string{
		"a/foreign bound 0 cooling=false", "a/u1 bound 2 cooling=false", "a/u2 assumed 1 cooling=false", "a/u3 unknown 1 cooling=false",
		"b/u4 bound 1 cooling=false", "c/u5 bound 1 cooling=false", "c/u6 bound 1 cooling=false", "d/u7 bound 1 cooling=true", "gone/mig bound 0 cooling=false",
	}
	if d := cmp.Diff(wantStages, stages); d != "" || next != "" {
		t.Fatalf("pods, next %q (-want +got):\n%s", next, d)
	}
	wantShare := introspect.Pod{
		UID: "u3", Pod: "ns/u3", Node: "a", Stage: "unknown", UnknownMIG: []introspect.ProfileCount{},
		Cards: []introspect.CardShare{{Index: 3, UUID: "GPU-a-3", SliceMask: "0xff", VRAMBytes: 10 << 30, ComputeMilli: 250}},
	}
	if d := cmp.Diff(wantShare, pods[3]); d != "" {
		t.Errorf("share (-want +got):\n%s", d)
	}
	if p := pods[7]; p.Pod != "ns/u7" {
		t.Errorf("the pod that cools is %q", p.Pod)
	}
	if d := cmp.Diff([]introspect.ProfileCount{{Profile: "1g.10gb", Count: 2}}, pods[8].UnknownMIG); d != "" || pods[0].UnknownCards != 1 {
		t.Errorf("unknown cards %d, instances (-want +got):\n%s", pods[0].UnknownCards, d)
	}
}

// TestStatePages: pages of every size give every item once and in order, and a token of something that is gone goes on
// where it stood.
func TestStatePages(t *testing.T) {
	s := inside{stateWorld(t)}
	all, _ := s.Pods("", 100)
	allNodes, _ := s.Nodes("", 100)
	for limit := 1; limit <= len(all)+1; limit++ {
		var pods []introspect.Pod
		for token, more := "", true; more; more = token != "" {
			var p []introspect.Pod
			p, token = s.Pods(token, limit)
			if len(p) > limit {
				t.Fatalf("limit %d: %d pods", limit, len(p))
			}
			pods = append(pods, p...)
		}
		if d := cmp.Diff(all, pods); d != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, d)
		}
		var nodes []introspect.Node
		for token, more := "", true; more; more = token != "" {
			var n []introspect.Node
			n, token = s.Nodes(token, limit)
			nodes = append(nodes, n...)
		}
		if d := cmp.Diff(allNodes, nodes); d != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, d)
		}
	}
	for token, want := range map[string]string{"a/u2": "u3", "a/zz": "u4", "aa/x": "u4", "a": "foreign", "zz/": "", "b/u4": "u5"} {
		pods, _ := s.Pods(token, 1)
		if got := append(pods, introspect.Pod{})[0].UID; got != want {
			t.Errorf("after %q comes %q, want %q", token, got, want)
		}
	}
}

func stateOf[T any](t *testing.T, e *Engine, path string) (out T) {
	t.Helper()
	r, err := http.Get(fmt.Sprintf("http://%s%s", *e.stateAddress, path))
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	if err := json.NewDecoder(r.Body).Decode(&out); err != nil {
		t.Error(err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
	return out
}

// freeAddress is one that nobody listened on a moment ago.
func freeAddress(t *testing.T) introspect.Address {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	return introspect.Address(l.Addr().String())
}

// TestStateIsServedFromTheStart: before the informers run and before anything was scheduled, until Close.
func TestStateIsServedFromTheStart(t *testing.T) {
	address := freeAddress(t)
	b := newBench(t, clock.RealClock{})
	before := goleak.IgnoreCurrent()
	e := New(Options{StateAddress: &address})
	if err := e.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Fatal(err)
	}
	nodeWith(t, e.ledger, "n1", kit.N8s("n1"))
	want := introspect.Summary{Nodes: 1, Cards: 8, Free: 8}
	if d := cmp.Diff(want, stateOf[introspect.Summary](t, e, "/v1/summary")); d != "" {
		t.Errorf("summary (-want +got):\n%s", d)
	}
	ctx, cancel := context.WithCancel(b.ctx)
	b.factory.Start(ctx.Done())
	eventually(b.ctx, t, "in sync", func() bool { return stateOf[introspect.Summary](t, e, "/v1/summary").Synced })
	// A process without leader election leads.
	if !stateOf[introspect.Summary](t, e, "/v1/summary").Leading {
		t.Error("in sync, and not leading")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	b.factory.Shutdown()
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
	if r, err := http.Get(fmt.Sprintf("http://%s/v1/summary", address)); err == nil {
		t.Errorf("served after Close: %s, %v", r.Status, r.Body.Close())
	}
}

// TestStartRefusesATakenAddress: a port that another program has is found before anything starts.
func TestStartRefusesATakenAddress(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t, clock.RealClock{})
	address := introspect.Address(taken.Addr().String())
	e := New(Options{StateAddress: &address})
	if err := e.Start(b.ctx, b.handle, defaultArgs()); err == nil || !strings.Contains(err.Error(), string(address)) {
		t.Errorf("Start: %v, want an error that names %s", err, address)
	}
	if e.Observer() != nil {
		t.Error("the engine started")
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if err := e.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Errorf("Start once the port is free: %v", err)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestStateIsOff: no address, no listener.
func TestStateIsOff(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for name, address := range map[string]*introspect.Address{"nil": nil, "empty": new(introspect.Address)} {
		e := New(Options{StateAddress: address})
		if err := e.serveState(ctx); err != nil || len(e.stops) != 0 {
			t.Errorf("%s: %v, %d loops", name, err, len(e.stops))
		}
	}
}

// TestStateGangs: pages of one group each, and what there is to say of a group without a plan.
func TestStateGangs(t *testing.T) {
	e := New(Options{})
	for _, name := range []string{"b", "a", "c"} {
		e.book.GroupSeen(podgroup.Group{UID: gang.GroupUID("uid-" + name), Namespace: "ns", Name: name, Spec: gang.Spec{MinMember: 4}})
	}
	var got []introspect.Gang
	for token, more := "", true; more; more = token != "" {
		var page []introspect.Gang
		page, token = inside{e}.Gangs(token, 1)
		if len(page) != 1 {
			t.Fatalf("a page of %d", len(page))
		}
		got = append(got, page...)
	}
	var want []introspect.Gang
	for _, name := range []string{"a", "b", "c"} {
		want = append(want, introspect.Gang{Gang: "ns/" + name, UID: "uid-" + name, Phase: "forming", MinMember: 4, Reason: got[len(want)].Reason})
	}
	if d := cmp.Diff(want, got); d != "" || got[0].Reason == "" {
		t.Errorf("gangs (-want +got):\n%s", d)
	}
	plan := gangOf(&book.Listed{
		Key: book.GroupKey{Namespace: "ns", Name: "g"}, PlanID: "u-2", Reason: strings.Repeat("x", 2*maxSentence),
		Planned: []book.ListedMember{{Pod: "g-0", Node: "n1", Rank: 0}, {Pod: "g-1", Node: "n2", Rank: -1}},
	})
	wantPlan := &introspect.Plan{ID: "u-2", Members: []introspect.PlannedMember{{Pod: "g-0", Node: "n1", Rank: 0}, {Pod: "g-1", Node: "n2", Rank: -1}}}
	if d := cmp.Diff(wantPlan, plan.Plan); d != "" || len(plan.Reason) != maxSentence {
		t.Errorf("reason of %d bytes, plan (-want +got):\n%s", len(plan.Reason), d)
	}
}

// BenchmarkState is one page of each kind at 10,000 nodes and 80,000 pods.
func BenchmarkState(b *testing.B) {
	e := New(Options{})
	for i := range 10000 {
		name := fmt.Sprintf("node-%05d", i)
		node := nodeWith(b, e.ledger, name, kit.N8s(name))
		for card := range 8 {
			adopt(b, e.ledger, hold(fmt.Sprintf("u-%05d-%d", i, card), name, wholeCards(node, card)))
		}
	}
	s := inside{e}
	e.placing.Store(true)
	for name, read := range map[string]func(){
		"summary":    func() { s.Summary() },
		"pods-500":   func() { s.Pods("node-05000/", 500) },
		"pods-5000":  func() { s.Pods("node-05000/", introspect.MaxLimit) },
		"nodes-5000": func() { s.Nodes("", introspect.MaxLimit) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				read()
			}
		})
	}
}
