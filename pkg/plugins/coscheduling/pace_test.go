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
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
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

// onPace is a gang of two, whose second member has its last cycle while so many Bindings hang.
type onPace struct {
	*fixture
	pods   []*v1.Pod
	states []fwk.CycleState
	node   string
}

func newOnPace(t *testing.T, hanging int) *onPace {
	t.Helper()
	var nodes []*v1.Node
	var names []string
	for i := range 6 {
		names = append(names, fmt.Sprintf("n%d", i))
		nodes = append(nodes, kit.Node(names[i], kit.N8s(names[i])))
	}
	o := &onPace{pods: members("a", 2, kit.GPUs(4))}
	o.fixture = newFixture(t, objects(nodes, o.pods)...)
	o.seesGroup("a", 2)
	o.hang(t, hanging, names)
	for _, pod := range o.pods {
		state, node, status := o.prefilter(t, pod)
		if !status.IsSuccess() {
			t.Fatal(status)
		}
		o.states, o.node = append(o.states, state), node
	}
	if answer, _ := o.Permit(o.ctx, o.states[0], o.pods[0], o.node); !answer.IsWait() {
		t.Fatalf("Permit of the first member: %v", answer)
	}
	return o
}

// waits calls do, lets time pass until it returns, and reports whether it waited for Bindings. during, if it is not nil, is called
// meanwhile.
func (o *onPace) waits(t *testing.T, do, during func()) (waited bool) {
	t.Helper()
	before := o.paces.Load()
	returned := make(chan struct{})
	go func() { do(); close(returned) }()
	over := func() bool {
		select {
		case <-returned:
			return true
		default:
			return false
		}
	}
	o.eventually(t, "it waits or returns", func() bool {
		waited = o.paces.Load() > before
		return waited || over()
	})
	if during != nil {
		during()
	}
	o.eventually(t, "it returns", func() bool {
		if over() {
			return true
		}
		o.clock.Step(10 * time.Millisecond)
		return false
	})
	return waited
}

// last runs Permit of the second member.
func (o *onPace) last(t *testing.T, during func()) (answer *fwk.Status, waited bool) {
	t.Helper()
	waited = o.waits(t, func() { answer, _ = o.Permit(o.ctx, o.states[1], o.pods[1], o.node) }, during)
	return answer, waited
}

// TestGangWaitsForBindings: while many Bindings are open, the last cycle of a gang waits before the gang is let go.
func TestGangWaitsForBindings(t *testing.T) {
	for hanging, want := range map[int]bool{0: false, 40: true} {
		o := newOnPace(t, hanging)
		if answer, waited := o.last(t, nil); !answer.IsSuccess() || waited != want {
			t.Errorf("%d Bindings hang: Permit answers %v, it waited: %t, want %t", hanging, answer, waited, want)
		}
	}
}

// TestSingleWaitsForBindings: so does the cycle of a pod of no gang that takes cards.
func TestSingleWaitsForBindings(t *testing.T) {
	for name, c := range map[string]struct {
		hanging int
		pod     *v1.Pod
		want    bool
	}{
		"none hangs":    {0, kit.Pod("ns", "single", kit.UID("single"), kit.GPUs(1)), false},
		"many hang":     {40, kit.Pod("ns", "single", kit.UID("single"), kit.GPUs(1)), true},
		"without cards": {40, kit.Pod("ns", "single", kit.UID("single")), false},
	} {
		o := newOnPace(t, c.hanging)
		var answer *fwk.Status
		waited := o.waits(t, func() { answer, _ = o.Permit(o.ctx, framework.NewCycleState(), c.pod, "n5") }, nil)
		if !answer.IsSuccess() || waited != c.want {
			t.Errorf("%s: Permit answers %v, it waited: %t, want %t", name, answer, waited, c.want)
		}
	}
}

// TestGangThatFailsWhileItWaitsForBindings: nobody is let go of a gang whose plan ends in that time.
func TestGangThatFailsWhileItWaitsForBindings(t *testing.T) {
	for name, during := range map[string]func(o *onPace){
		"a sibling is deleted":   func(o *onPace) { o.book.PodGone(o.pods[0]) },
		"the pod is deleted":     func(o *onPace) { o.book.PodGone(o.pods[1]) },
		"the node is gone":       func(o *onPace) { o.book.NodeGone(o.node) },
		"the group is gone":      func(o *onPace) { o.book.GroupGone("ns", "a", "uid-a") },
		"a sibling rolls back":   func(o *onPace) { o.Unreserve(o.ctx, o.states[0], o.pods[0], o.node) },
		"its own cycle is ended": func(o *onPace) { o.Unreserve(o.ctx, o.states[1], o.pods[1], o.node) },
	} {
		t.Run(name, func(t *testing.T) {
			o := newOnPace(t, 40)
			answer, waited := o.last(t, func() { during(o) })
			if !waited || answer.IsSuccess() || answer.IsWait() {
				t.Errorf("Permit answers %v, it waited: %t; want a refusal after a wait", answer, waited)
			}
		})
	}
}

// TestGangOnItsWayCounts: the members that follow the first one count as open until it is bound, or has failed.
func TestGangOnItsWayCounts(t *testing.T) {
	for name, end := range map[string]func(o *onPace){
		"bound":       func(o *onPace) { o.PostBind(o.ctx, o.states[1], o.pods[1], o.node) },
		"rolled back": func(o *onPace) { o.Unreserve(o.ctx, o.states[1], o.pods[1], o.node) },
	} {
		t.Run(name, func(t *testing.T) {
			const most = 8
			o := newOnPace(t, most)
			if answer, waited := o.last(t, nil); !answer.IsSuccess() || waited {
				t.Fatalf("%d Bindings hang: Permit answers %v, it waited: %t", most, answer, waited)
			}
			full := func() bool { return o.waits(t, func() { o.engine.Pace(o.ctx, 2) }, nil) }
			if !full() {
				t.Error("the member that follows does not count")
			}
			if end(o); full() {
				t.Error("it counts for ever")
			}
		})
	}
}
