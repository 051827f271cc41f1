package observe

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// stream is one informer: the changes of its objects in the order of the server. The store runs ahead of the handler by
// any number of them, and other informers run at another pace.
type stream struct {
	store   cache.Store
	handler cache.ResourceEventHandler
	// changes hold an object's next state, or with gone its last one.
	changes []change
	// stored and told count the changes that the store has taken and the handler heard of.
	stored, told int
	// last is what the handler was told last of each key.
	last map[string]any
}

// versioned gives the states the versions of the server: each change has the next.
func (s *stream) versioned(t *rapid.T) *stream {
	for i := range s.changes {
		object, ok := s.changes[i].object.(runtime.Object)
		if !ok {
			t.Fatalf("%T", s.changes[i].object)
		}
		object = object.DeepCopyObject()
		accessor, err := meta.Accessor(object)
		if err != nil {
			t.Fatal(err)
		}
		accessor.SetResourceVersion(fmt.Sprint(i + 1))
		s.changes[i].object = object
	}
	return s
}

// read has the observer see every bound pod as the server shows it after n changes.
func (s *stream) read(o *Observer, n int) {
	last := map[string]*v1.Pod{}
	for _, c := range s.changes[:n] {
		pod, ok := c.object.(*v1.Pod)
		if last[c.key] = pod; c.gone || !ok {
			delete(last, c.key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if pod := last[key]; pod.Spec.NodeName != "" && !Terminal(pod) {
			o.PodSeen(pod)
		}
	}
}

type change struct {
	key    string
	object any
	gone   bool
	// missed is a delete that the informer did not see: the handler gets a tombstone.
	missed bool
}

func (s *stream) advance(t *rapid.T) {
	c := s.changes[s.stored]
	s.stored++
	err := s.store.Add(c.object)
	if c.gone {
		err = s.store.Delete(c.object)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stream) tell() {
	c := s.changes[s.told]
	s.told++
	old, known := s.last[c.key]
	switch {
	case c.gone && c.missed:
		s.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: c.key, Obj: c.object})
	case c.gone:
		s.handler.OnDelete(c.object)
	case known:
		s.handler.OnUpdate(old, c.object)
	default:
		s.handler.OnAdd(c.object, false)
	}
	s.last[c.key] = c.object
	if c.gone {
		delete(s.last, c.key)
	}
}

// interleave draws an order of all lives that keeps each of them in its own order.
func interleave(t *rapid.T, label string, lives [][]change) []change {
	var out []change
	for {
		var open []int
		for i, life := range lives {
			if len(life) > 0 {
				open = append(open, i)
			}
		}
		if len(open) == 0 {
			return out
		}
		i := rapid.SampledFrom(open).Draw(t, label)
		out, lives[i] = append(out, lives[i][0]), lives[i][1:]
	}
}

// nodeLife draws the states of a node.
func nodeLife(t *rapid.T, name string) []change {
	shapes := map[string]func(string) topology.Spec{"8 cards": kit.N8s, "2 cards": kit.N2}
	var life []change
	var last *v1.Node
	for range rapid.IntRange(1, 4).Draw(t, name+" changes") {
		next := rapid.SampledFrom([]string{"8 cards", "2 cards", "no cards", "gone"}).Draw(t, name)
		switch {
		case next == "gone" && last == nil:
			continue
		case next == "gone":
			life = append(life, change{key: name, object: last, gone: true, missed: rapid.Bool().Draw(t, "missed")})
			last = nil
			continue
		case next == "no cards":
			last = bareNode(name)
		default:
			last = kit.Node(name, shapes[next](name))
		}
		life = append(life, change{key: name, object: last})
	}
	return life
}

// podLife draws the states of the pods that bear a name, one after the other: waiting, bound, ended, gone. A pod may be
// first seen in any of them, and the next may take its name without a delete between.
func podLife(t *rapid.T, name string) []change {
	var life []change
	for i := range rapid.IntRange(1, 2).Draw(t, name+" pods") {
		uid := fmt.Sprintf("%s-%d", name, i)
		node := rapid.SampledFrom([]string{"n0", "n1", "n2"}).Draw(t, "node")
		card := rapid.IntRange(0, 5).Draw(t, "card")
		bound := with(boundPod(t, uid, node, card, card+2), func(p *v1.Pod) { p.Name = name })
		switch rapid.SampledFrom([]string{"record", "foreign", "no GPUs"}).Draw(t, "kind") {
		case "foreign":
			unrecorded(bound)
		case "no GPUs":
			bound = kit.Pod("ns", name, kit.UID(uid), kit.OnNode(node))
		}
		waiting := with(bound, unrecorded, kit.OnNode(""))
		states := []*v1.Pod{waiting, bound, with(bound, phase(v1.PodRunning)), with(bound, phase(v1.PodFailed))}
		first := rapid.IntRange(0, 3).Draw(t, "first")
		last := rapid.IntRange(first, 3).Draw(t, "last")
		for _, p := range states[first : last+1] {
			life = append(life, change{key: "ns/" + name, object: p})
		}
		if rapid.Bool().Draw(t, "deleted") {
			life = append(life, change{key: "ns/" + name, object: states[last], gone: true, missed: rapid.Bool().Draw(t, "missed")})
		}
	}
	return life
}

// picture is all that two ledgers must agree on: generations count events, so they are left out.
type picture struct {
	Holdings map[ledger.PodUID]ledger.Holding
	Nodes    map[ledger.NodeName]nodePicture
}

type nodePicture struct {
	Use                   []allocate.CardUse
	Free, Closed, Foreign topology.GPUSet
	Pods                  int32
	Quarantine            string
	Missing               []ledger.MissingShare
}

func pictureOf(l *ledger.Ledger) picture {
	p := picture{Holdings: map[ledger.PodUID]ledger.Holding{}, Nodes: map[ledger.NodeName]nodePicture{}}
	for _, uid := range l.Pods() {
		p.Holdings[uid], _, _ = l.Holding(uid)
	}
	for a := range l.Nodes() {
		p.Nodes[a.Name] = nodePicture{a.Use, a.Free, a.Closed, a.Foreign, a.Pods, a.Quarantine(), a.Missing()}
	}
	return p
}

// rebuilt is the ledger of a scheduler that starts now: it lists what the stores hold.
func (w *world) rebuilt(t *rapid.T) picture {
	fresh := newWorld(t)
	for _, object := range w.nodeStore.List() {
		if node, ok := object.(*v1.Node); ok {
			fresh.putNode(t, node)
		}
	}
	for _, object := range w.podStore.List() {
		if pod, ok := object.(*v1.Pod); ok {
			fresh.putPod(t, pod)
		}
	}
	return pictureOf(fresh.ledger)
}

// TestOrderOfEvents: however the informers race each other and run behind their stores, and the stores behind what somebody
// has read from the server, the ledger ends as one that is built from the last state of every object; its invariants hold at
// every step.
func TestOrderOfEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		var nodes, pods [][]change
		for i := range 3 {
			nodes = append(nodes, nodeLife(t, fmt.Sprintf("n%d", i)))
		}
		for i := range 5 {
			pods = append(pods, podLife(t, fmt.Sprintf("p%d", i)))
		}
		streams := []*stream{
			{store: w.nodeStore, handler: w.nodeHandler(), changes: interleave(t, "nodes", nodes), last: map[string]any{}},
			{store: w.podStore, handler: w.podHandler(), changes: interleave(t, "pods", pods), last: map[string]any{}},
		}
		reader, reads := streams[1].versioned(t), 3
		for {
			var steps []func()
			for _, s := range streams {
				if s.stored < len(s.changes) {
					steps = append(steps, func() { s.advance(t) })
				}
				if s.told < s.stored {
					steps = append(steps, s.tell)
				}
			}
			if len(steps) == 0 {
				break
			}
			steps = append(steps, func() { w.CatchUp("n1", int64(streams[0].stored+streams[1].stored)) })
			if reads > 0 {
				steps = append(steps, func() {
					reads--
					reader.read(w.Observer, rapid.IntRange(reader.stored, len(reader.changes)).Draw(t, "read"))
				})
			}
			steps[rapid.IntRange(0, len(steps)-1).Draw(t, "step")]()
			if err := w.ledger.Check(); err != nil {
				t.Fatalf("invariants: %v", err)
			}
		}
		if d := cmp.Diff(w.rebuilt(t), pictureOf(w.ledger)); d != "" {
			t.Fatalf("ledger differs from one built from the last states (-want +got):\n%s", d)
		}
	})
}
