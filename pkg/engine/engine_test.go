package engine

import (
	"context"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2/ktesting"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/utils/clock"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestStartOfASecondProfile: every profile may have its own policies, but there is one set of rates.
func TestStartOfASecondProfile(t *testing.T) {
	b := newBench(t, clock.RealClock{})
	if err := b.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Fatal(err)
	}
	observer := b.Observer()
	same := defaultArgs()
	same.NodePacking = "Spread"
	if err := b.Start(b.ctx, b.handle, same); err != nil {
		t.Errorf("a profile with other policies: %v", err)
	}
	other := defaultArgs()
	other.Bandwidths = map[string]float64{"nvlinkHopper": 12.5}
	err := b.Start(b.ctx, b.handle, other)
	if err == nil || !strings.Contains(err.Error(), "bandwidths") || !strings.Contains(err.Error(), kit.SchedulerName) {
		t.Errorf("a profile with other rates: %v, want an error that names the field and the profile", err)
	}
	if b.Observer() != observer {
		t.Error("a second profile replaced the observer")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestStartRefusesBadRates: nothing is registered, so that a Start with good ones works.
func TestStartRefusesBadRates(t *testing.T) {
	b := newBench(t, clock.RealClock{})
	bad := defaultArgs()
	bad.Bandwidths = map[string]float64{"nvlinkMaxwell": 1}
	if err := b.Start(b.ctx, b.handle, bad); err == nil || !strings.Contains(err.Error(), "nvlinkMaxwell") {
		t.Errorf("Start: %v, want an error that names the rate", err)
	}
	if b.Observer() != nil || b.HasSynced() {
		t.Error("the engine started")
	}
	if err := b.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Error(err)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}

// TestHasSynced: true only once every object of the first list has been delivered, and true for ever then.
func TestHasSynced(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := fake.NewClientset(kit.Node("n1", kit.N8s("n1")), kit.Pod("ns", "p", kit.UID("foreign"), kit.GPUs(3), kit.OnNode("n1")))
	factory := informers.NewSharedInformerFactory(client, 0)
	e := New(Options{})
	if e.HasSynced() {
		t.Fatal("in sync before Start")
	}
	if err := e.Start(ctx, newHandle(ctx, t, client, frameworkruntime.WithInformerFactory(factory)), defaultArgs()); err != nil {
		t.Fatal(err)
	}
	if e.HasSynced() {
		t.Fatal("in sync before the informers run")
	}
	factory.Start(ctx.Done())
	eventually(ctx, t, "in sync", e.HasSynced)
	if got := e.Ledger().Node("n1"); got == nil || got.Free.Len() != 5 {
		t.Errorf("in sync, and node n1 is %+v, want 5 free cards", got)
	}
	cancel()
	factory.Shutdown()
	if !e.HasSynced() {
		t.Error("no longer in sync after the informers ended")
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

// TestCloseLeavesNothing: Close ends the loops without the context's help, any number of times, and before Start.
func TestCloseLeavesNothing(t *testing.T) {
	if err := New(Options{}).Close(); err != nil {
		t.Errorf("Close before Start: %v", err)
	}
	b := newBench(t, clock.RealClock{})
	before := goleak.IgnoreCurrent()
	if err := b.Start(b.ctx, b.handle, defaultArgs()); err != nil {
		t.Fatal(err)
	}
	if goleak.Find(before, goleak.Cleanup(func(int) {})) == nil {
		t.Fatal("Start runs no loop: the test shows nothing")
	}
	for range 2 {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := goleak.Find(before); err != nil {
		t.Error(err)
	}
}
