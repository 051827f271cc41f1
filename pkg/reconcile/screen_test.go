package reconcile

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// pair is two worlds in which the same happens. One of them forgets after each sweep what agreed.
type pair struct {
	worlds  [2]*world
	version int
	pods    map[string]*v1.Pod
}

// TestMemoryChangesNothing: what agreed is left out of the next comparison, and every sweep comes to the same all the same.
// At the end events stop, and the ledger comes to say what the stores say.
func TestMemoryChangesNothing(t *testing.T) {
	met := map[string]int{}
	// A hundred draws do not always meet both.
	for range 10 {
		if rapid.Check(t, func(t *rapid.T) { checkMemory(t, met) }); t.Failed() || met["remembered"] > 0 && met["repaired"] > 0 {
			return
		}
	}
	t.Errorf("%v: the test shows nothing", met)
}

func checkMemory(t *rapid.T, met map[string]int) {
	p := &pair{pods: map[string]*v1.Pod{}}
	for i := range p.worlds {
		p.worlds[i] = newWorld(t, observe.Options{})
	}
	for range rapid.IntRange(1, 30).Draw(t, "steps") {
		if rapid.IntRange(0, 3).Draw(t, "sweep") == 0 {
			p.sweep(t, met)
			continue
		}
		p.happen(t)
	}
	for range 2 {
		p.sweep(t, met)
	}
	p.settled(t)
	w := p.worlds[0]
	w.clock.Step(period)
	if got := w.sweep(); len(got) > 0 {
		t.Fatalf("%q in a quiet world", got)
	}
}

func (p *pair) sweep(t *rapid.T, met map[string]int) {
	var got [2][]string
	for i, w := range p.worlds {
		w.clock.Step(period)
		got[i] = w.sweep()
	}
	for _, k := range p.worlds[0].memory.entries {
		if k.print != 0 {
			met["remembered"]++
		}
	}
	met["repaired"] += len(got[0])
	p.worlds[1].forget()
	if d := cmp.Diff(got[0], got[1]); d != "" {
		t.Fatalf("repairs with and without memory (-with +without):\n%s", d)
	}
	var entries [2][]ledger.Entry
	for i, w := range p.worlds {
		entries[i] = entriesOf(w.Ledger)
	}
	if d := cmp.Diff(entries[0], entries[1], cmpopts.IgnoreFields(ledger.Entry{}, "Revision")); d != "" {
		t.Fatalf("ledgers with and without memory (-with +without):\n%s", d)
	}
}

// happen lets something happen in both worlds: in the stores, of which the ledger hears or not, or in the ledger alone.
func (p *pair) happen(t *rapid.T) {
	p.version++
	uid := fmt.Sprintf("p%d", rapid.IntRange(0, 5).Draw(t, "pod"))
	node := fmt.Sprintf("n%d", rapid.IntRange(0, 1).Draw(t, "node"))
	h := holding(uid, node, rapid.IntRange(0, 7).Draw(t, "card"))
	heard := rapid.Bool().Draw(t, "heard of")
	old := p.pods[uid]
	var now *v1.Pod
	switch what := rapid.IntRange(0, 8).Draw(t, "what"); {
	case what == 0:
		for _, w := range p.worlds {
			w.node(node)
		}
		return
	case what == 1:
		for _, w := range p.worlds {
			w.remove(w.nodeStore, kit.Node(node, kit.N8s(node)))
		}
		return
	case what == 2: // a fault
		release := rapid.Bool().Draw(t, "released")
		for _, w := range p.worlds {
			if release {
				w.Ledger.Release(h.UID)
			} else if err := w.Ledger.Restore(h); err != nil {
				t.Fatal(err)
			}
		}
		return
	case what == 3 && old != nil:
		now = nil
	case old == nil && what < 6:
		now = boundPod(t, h, p.version)
	case old == nil:
		now = pod(uid, 1, p.version, kit.OnNode(node))
	default: // its record is edited, or something else of it
		now = old.DeepCopy()
		now.ResourceVersion = fmt.Sprint(p.version)
		if what == 8 {
			h.Node = ledger.NodeName(now.Spec.NodeName)
			recorded(t, holding(uid, now.Spec.NodeName, h.Cards[0].Index))(now)
		}
	}
	p.put(uid, old, now, heard)
}

func (p *pair) put(uid string, old, now *v1.Pod, heard bool) {
	for _, w := range p.worlds {
		switch {
		case now == nil:
			w.remove(w.podStore, old)
			if heard {
				w.Observer.PodChanged(old)
			}
		case old == nil:
			w.put(w.podStore, now)
			if heard {
				w.Observer.PodSeen(now)
			}
		default:
			w.put(w.podStore, now)
			if heard {
				w.Observer.PodUpdated(old, now)
			}
		}
	}
	if now == nil {
		delete(p.pods, uid)
		return
	}
	p.pods[uid] = now
}

// settled compares a ledger with its stores.
func (p *pair) settled(t *rapid.T) {
	w := p.worlds[0]
	held := 0
	for _, e := range entriesOf(w.Ledger) {
		held++
		pod := p.pods[string(e.UID)]
		if pod == nil || pod.Spec.NodeName != string(e.Node) || e.Stage != ledger.StageBound {
			t.Fatalf("the ledger has %+v, and the pod is %v", e, pod)
		}
	}
	if held != len(p.pods) {
		t.Fatalf("the ledger has %d pods, want %d", held, len(p.pods))
	}
	for _, name := range []string{"n0", "n1"} {
		if (w.Observer.Node(name) == nil) != (w.Ledger.Node(ledger.NodeName(name)) == nil) {
			t.Fatalf("node %s is known to the ledger: %t", name, w.Ledger.Node(ledger.NodeName(name)) != nil)
		}
	}
}
