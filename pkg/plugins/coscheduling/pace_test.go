package coscheduling

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/component-base/metrics/testutil"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// hang has so many Bindings of whole cards wait for an API server that does not answer until the test ends.
func (f *fixture) hang(t *testing.T, binds int, nodes []string) {
	t.Helper()
	client, ok := f.handle.ClientSet().(*fake.Clientset)
	if !ok {
		t.Fatalf("the client is a %T", f.handle.ClientSet())
	}
	release := make(chan struct{})
	client.PrependReactor("create", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		<-release
		return true, nil, errors.New("the test is over")
	})
	var sent sync.WaitGroup
	t.Cleanup(func() { close(release); sent.Wait() })
	for i := range binds {
		name, node := fmt.Sprintf("hangs-%d", i), ledger.NodeName(nodes[i/8])
		card := f.engine.Ledger().Node(node).Topology.Card(i % 8)
		h := ledger.Holding{UID: ledger.PodUID(name), Pod: "ns/" + name, Node: node, Cards: []allocate.CardShare{{
			Index: i % 8, UUID: card.UUID, SliceMask: allocate.WholeCard, VRAMBytes: card.VRAMBytes, ComputeMilli: allocate.MilliPerCard,
		}}}
		if err := f.engine.Ledger().Assume(h); err != nil {
			t.Fatal(err)
		}
		b := &v1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}, Target: v1.ObjectReference{Kind: "Node", Name: nodes[i/8]}}
		sent.Go(func() { _ = f.engine.Bind(f.ctx, f.handle, b, h.Cards) })
		f.eventually(t, "the Binding is sent", func() bool { return f.engine.Binding(h.UID) })
	}
}

// TestCycleThatLetsAGangGoWaitsForBindings: while many Bindings are open, Permit returns for the last member only once it has
// waited, and at once for everybody else.
func TestCycleThatLetsAGangGoWaitsForBindings(t *testing.T) {
	var nodes []*v1.Node
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("n%d", i))
		nodes = append(nodes, kit.Node(names[i], kit.N8s(names[i])))
	}
	pods := members("a", 2, kit.GPUs(4))
	f := newFixture(t, objects(nodes, pods)...)
	f.seesGroup("a", 2)
	f.hang(t, 40, names)
	waited := func() float64 {
		seconds, err := testutil.GetCounterMetricValue(metrics.PacedSeconds)
		if err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	single := kit.Pod("ns", "s", kit.UID("s"), kit.GPUs(1))
	state, _, _ := f.prefilter(t, single)
	f.Permit(f.ctx, state, single, "n5")
	for i, pod := range pods {
		state, node, status := f.prefilter(t, pod)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		if before := waited(); i == 0 {
			if f.Permit(f.ctx, state, pod, node); waited() != before {
				t.Error("the first member waited")
			}
			continue
		}
		returned := make(chan struct{})
		go func() {
			defer close(returned)
			if answer, _ := f.Permit(f.ctx, state, pod, node); !answer.IsSuccess() {
				t.Errorf("Permit: %v", answer)
			}
		}()
		before := waited()
		f.eventually(t, "Permit returns", func() bool {
			select {
			case <-returned:
				return true
			default:
				f.clock.Step(10 * time.Millisecond)
				return false
			}
		})
		if waited() <= before {
			t.Error("the last member did not wait")
		}
	}
}
