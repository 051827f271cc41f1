package engine

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// hanging is an API server that knows every pod as bound to node n1, and leaves questions for some of them without an answer
// until it is released.
type hanging struct {
	release chan struct{}
	hangs   func(name string) bool
	// deaf says that a request goes on when nobody waits for it any more, so that no clock decides.
	deaf bool

	mu                sync.Mutex
	open, most, total int
}

// RoundTrip implements http.RoundTripper.
func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	name := path.Base(r.URL.Path)
	if name == "pods" { // the informer of ended pods
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	h.count(1)
	defer h.count(-1)
	if h.hangs(name) {
		gone := r.Context().Done()
		if h.deaf {
			gone = nil
		}
		select {
		case <-gone:
			return nil, r.Context().Err()
		case <-h.release:
		}
	}
	pod := kit.Pod("ns", name, kit.UID(name), kit.GPUs(1), kit.OnNode("n1"))
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(string(text))), Request: r,
	}, nil
}

func (h *hanging) count(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open += n
	h.most = max(h.most, h.open)
	h.total += max(n, 0)
}

// requests returns how many are open, how many were at most, and how many there were.
func (h *hanging) requests() (open, most, total int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.open, h.most, h.total
}

// newHanging returns an engine with so many binds of unknown outcome, of pods s000, s001, ...
func newHanging(t *testing.T, suspects int, hangs func(name string) bool) (*bench, *hanging) {
	t.Helper()
	b := newBench(t, testingclock.NewFakeClock(start))
	b.ledger.Forget(podUID)
	h := &hanging{release: make(chan struct{}), hangs: hangs}
	client, err := clientset.NewForConfigAndClient(&rest.Config{Host: "http://apiserver", QPS: -1}, &http.Client{Transport: h})
	if err != nil {
		t.Fatal(err)
	}
	b.handle = newHandle(b.ctx, t, client, frameworkruntime.WithInformerFactory(b.factory), frameworkruntime.WithPodActivator(b.woken))
	for i := range suspects {
		node := fmt.Sprintf("big%d", i/8)
		if i%8 == 0 {
			cards, err := topology.New(kit.N8s(node), topology.DefaultRates())
			if err != nil {
				t.Fatal(err)
			}
			b.ledger.SetNode(ledger.NodeName(node), cards)
		}
		name := fmt.Sprintf("s%03d", i)
		held := b.holding
		held.UID, held.Pod, held.Node = ledger.PodUID(name), "ns/"+name, ledger.NodeName(node)
		held.Cards = append(held.Cards[:0:0], held.Cards...)
		held.Cards[0].Index, held.Cards[0].UUID = i%8, kit.N8s(node).Cards[i%8].UUID
		if err := b.ledger.Assume(held); err != nil {
			t.Fatal(err)
		}
		b.suspect(&v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Target: v1.ObjectReference{Kind: "Node", Name: node}})
	}
	return b, h
}

// TestResolveReadsSideBySide: a bounded number of pods is read at a time, and one that hangs holds up no other.
func TestResolveReadsSideBySide(t *testing.T) {
	t.Run("all hang", func(t *testing.T) {
		const suspects = 3 * readsAtOnce
		b, h := newHanging(t, suspects, func(string) bool { return true })
		h.deaf = true
		b.observed(t)
		done := make(chan struct{})
		go func() { defer close(done); b.resolve(b.ctx, b.handle) }()
		eventually(b.ctx, t, "all slots taken", func() bool { open, _, _ := h.requests(); return open == readsAtOnce })
		close(h.release)
		<-done
		if open, most, total := h.requests(); open != 0 || most != readsAtOnce || total != suspects || len(b.openSuspects()) != 0 {
			t.Errorf("%d requests, at most %d at a time, %d open; %d suspects left", total, most, open, len(b.openSuspects()))
		}
	})
	t.Run("all but one slot hang", func(t *testing.T) {
		const suspects = 3 * readsAtOnce
		b, h := newHanging(t, suspects, func(name string) bool { return name < fmt.Sprintf("s%03d", readsAtOnce-1) })
		h.deaf = true
		b.observed(t)
		done := make(chan struct{})
		go func() { defer close(done); b.resolve(b.ctx, b.handle) }()
		eventually(b.ctx, t, "the others are settled", func() bool { return len(b.openSuspects()) == readsAtOnce-1 })
		if got := b.ledger.Stats(); got.Unknown != readsAtOnce-1 || got.Bound != suspects-readsAtOnce+1 {
			t.Errorf("%+v", got)
		}
		close(h.release)
		<-done
	})
}

// TestHangingReadsDelayNothingElse: cards cool down in time while the API server hangs, and Close does not wait for it.
func TestHangingReadsDelayNothingElse(t *testing.T) {
	b, h := newHanging(t, 1, func(string) bool { return true })
	c, ok := b.clock.(*testingclock.FakeClock)
	if !ok {
		t.Fatalf("clock is a %T", b.clock)
	}
	args := defaultArgs()
	if err := b.Start(b.ctx, b.handle, args); err != nil {
		t.Fatal(err)
	}
	eventually(b.ctx, t, "the read hangs", func() bool {
		c.Step(resolvePeriod) // again, until the loop has its ticker
		open, _, _ := h.requests()
		return open == 1
	})
	running := kit.Pod("ns", "forced", kit.UID("forced"), kit.GPUs(2), kit.OnNode("n1"), func(p *v1.Pod) { p.Status.Phase = v1.PodRunning })
	b.Observer().PodSeen(running)
	b.Observer().PodChanged(running) // it is in no store: it was deleted while it ran
	if got := b.ledger.Node("n1").Free.Len(); got != 6 {
		t.Errorf("%d cards are free, want 6: two cool down", got)
	}
	c.Step(args.ForceDeleteCooling.Duration)
	eventually(b.ctx, t, "cooled down", func() bool { return b.ledger.Node("n1").Free.Len() == 8 })
	if open, _, total := h.requests(); open != 1 || total != 1 {
		t.Errorf("%d requests, %d open: one round at a time", total, open)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
}
