package gputopology

import (
	"errors"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// alien is data that another plugin might put under our keys.
type alien struct{}

func (a *alien) Clone() fwk.StateData { return a }

// TestUnreserveOfStatesThatAreNotOurs: a state that says nothing, or the wrong thing, gives back by UID and breaks nothing.
func TestUnreserveOfStatesThatAreNotOurs(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	foreign := framework.NewCycleState()
	foreign.Write(reservationKey, &alien{})
	foreign.Write(requestKey, &alien{})
	states := map[string]fwk.CycleState{"no state": nil, "empty": framework.NewCycleState(), "alien data": foreign}
	for name, state := range states {
		t.Run(name, func(t *testing.T) {
			reserved, bystander := kit.Pod("ns", "p", kit.UID("p-"+name), kit.GPUs(2)), kit.Pod("ns", "q", kit.UID("q-"+name), kit.GPUs(1))
			own, _ := f.cycle(t, reserved)
			if status := f.Reserve(f.ctx, own, reserved, "n1"); !status.IsSuccess() {
				t.Fatal(status)
			}
			f.Unreserve(f.ctx, state, bystander, "n1")
			f.Unreserve(f.ctx, state, nil, "n1")
			f.Unreserve(f.ctx, state, &v1.Pod{}, "")
			if got := f.free(); got != 6 {
				t.Errorf("%d cards are free after rollbacks of pods that hold nothing, want 6", got)
			}
			f.Unreserve(f.ctx, state, reserved, "another node")
			f.Unreserve(f.ctx, state, reserved, "n1")
			if got := f.free(); got != 8 {
				t.Errorf("%d cards are free after the rollback, want 8", got)
			}
		})
	}
}

func (f *fixture) free() int { return f.engine.Ledger().Node("n1").Free.Len() }

// TestUnreserveAtAnyMoment is the law of Unreserve: whenever it is called, how often and beside whom, a pod that is bound
// keeps its cards, one that is not gives all of them back, and nobody else's change.
func TestUnreserveAtAnyMoment(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	var refuse sync.Map // UID -> true: the API server refuses the Binding
	f.client.PrependReactor("create", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create, ok := action.(clienttesting.CreateAction)
		if !ok || action.GetSubresource() != "binding" {
			return false, nil, nil
		}
		binding, ok := create.GetObject().(*v1.Binding)
		if !ok {
			t.Errorf("a %T was sent", create.GetObject())
		}
		if _, no := refuse.Load(binding.UID); no {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, binding.Name, errors.New("no right"))
		}
		return true, nil, nil
	})
	round := 0
	rapid.Check(t, func(t *rapid.T) {
		round++
		pod := kit.Pod("ns", "p", kit.UID(rapid.StringMatching(`[a-z]{8}`).Draw(t, "uid")+string(rune('0'+round%10))), kit.GPUs(int64(rapid.IntRange(1, 8).Draw(t, "cards"))))
		uid := ledger.PodUID(pod.UID)
		state := framework.NewCycleState()
		if _, status := f.PreFilter(f.ctx, state, pod, nil); !status.IsSuccess() {
			t.Skip("a UID that was used before")
		}
		bound, reserved := false, false
		steps := rapid.SliceOfN(rapid.SampledFrom([]string{"reserve", "unreserve", "unreserve at once", "bind", "refused bind", "delete"}), 1, 8).Draw(t, "steps")
		deleted := false
		for _, step := range steps {
			switch step {
			case "reserve":
				if !bound && !reserved && !deleted {
					if status := f.Reserve(f.ctx, state, pod, "n1"); !status.IsSuccess() {
						t.Fatalf("Reserve: %v", status)
					}
					reserved = true
				}
			case "unreserve":
				f.Unreserve(f.ctx, state, pod, "n1")
				reserved = false
			case "unreserve at once":
				var all sync.WaitGroup
				for range 4 {
					all.Go(func() { f.Unreserve(f.ctx, state, pod, "n1") })
				}
				all.Wait()
				reserved = false
			case "bind", "refused bind":
				if step == "refused bind" {
					refuse.Store(pod.UID, true)
				} else {
					refuse.Delete(pod.UID)
				}
				status := f.Bind(f.ctx, state, pod, "n1")
				want := reserved && !deleted && !bound && step == "bind"
				if status.IsSuccess() != want {
					t.Fatalf("Bind after %v: %v, want success %t", steps, status, want)
				}
				bound = bound || want
			case "delete":
				f.engine.Ledger().Release(uid)
				deleted, bound, reserved = true, false, false
			}
		}
		want := 8
		held, _, holds := f.engine.Ledger().Holding(uid)
		if holds != (bound || reserved) {
			t.Fatalf("after %v the pod holds %v, want it to hold something: %t", steps, held.Cards, bound || reserved)
		}
		if holds {
			want -= len(held.Cards)
		}
		if got := f.free(); got != want {
			t.Fatalf("after %v %d cards are free, want %d", steps, got, want)
		}
		f.engine.Ledger().Release(uid)
		if err := f.engine.Ledger().Check(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestLeftOverReservation: a cycle whose end nobody told of does not keep its cards from the pod's next one.
func TestLeftOverReservation(t *testing.T) {
	f := newFixture(t, kit.Node("n1", kit.N8s("n1")))
	pod := kit.Pod("ns", "p", kit.UID("u"), kit.GPUs(8))
	for range 3 {
		state, status := f.cycle(t, pod)
		if !status.IsSuccess() || f.free() != 8 {
			t.Fatalf("PreFilter: %v with %d cards free, want all that an earlier cycle left", status, f.free())
		}
		if status := f.Reserve(f.ctx, state, pod, "n1"); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
}
