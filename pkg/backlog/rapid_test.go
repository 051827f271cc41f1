package backlog

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// model is what a Backlog should know, without kinds, places or turns: pods, requests and nodes, compared one by one.
type model struct {
	b        *Backlog
	fits     Fits
	requests []*allocate.Request
	nodes    map[ledger.NodeName]*ledger.NodeGPUAllocation
	pods     map[ledger.PodUID]modelPod
	// admitted says which nodes admit a class.
	admitted [2]map[ledger.NodeName]bool
	lowest   int32
	now      time.Time
	drawn    int
}

// modelPod asks for what want is the number of: a request of a class.
type modelPod struct {
	Pod
	want int
}

func (m *model) want(i int) *Want {
	class := i % len(m.admitted)
	return &Want{Request: m.requests[i/len(m.admitted)], Class: fmt.Sprint(class), Admits: func(n ledger.NodeName) bool { return m.admitted[class][n] }}
}

func (m *model) wants() int { return len(m.requests) * len(m.admitted) }

func (m *model) preempts(p *Pod) bool { return !p.Patient && p.Priority > m.lowest }

// place reports whether any node can take a pod.
func (m *model) place(want int) bool {
	w := m.want(want)
	for name, a := range m.nodes {
		if w.Admits(name) && a != nil && a.Topology != nil && !a.Quarantined && m.fits(&a.View, w.Request) {
			return true
		}
	}
	return false
}

func (m *model) waiting(want int) (pods []modelPod) {
	for _, p := range m.pods {
		if p.want == want {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(p, q modelPod) int {
		return cmp.Or(-cmp.Compare(p.Priority, q.Priority), cmp.Compare(p.Created, q.Created), cmp.Compare(p.UID, q.UID))
	})
	return pods
}

func (m *model) drawNode(t *rapid.T, usual *topology.Node) {
	name := ledger.NodeName(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"))
	var a *ledger.NodeGPUAllocation
	switch rapid.IntRange(0, 9).Draw(t, "state") {
	case 0:
	case 1:
		a = &ledger.NodeGPUAllocation{Name: name}
	case 2:
		a = state(name, usual, usual.All())
		a.Quarantined = true
	default:
		a = state(name, usual, topology.GPUSet(rapid.SampledFrom([]int{0, 0, 0, 1, 0b11, 0b110011, 0xf0, 0xff}).Draw(t, "free")))
	}
	m.nodes[name] = a
	m.b.Set(name, a)
}

func (m *model) park(t *rapid.T) {
	r := rapid.IntRange(0, m.wants()-1).Draw(t, "want")
	p := Pod{Patient: rapid.Bool().Draw(t, "patient"), Priority: rapid.Int32Range(0, 2).Draw(t, "priority"), Created: rapid.Int64Range(0, 3).Draw(t, "created")}
	if known := rapid.IntRange(0, 3).Draw(t, "known"); known == 0 && m.drawn > 0 {
		p.UID = ledger.PodUID(fmt.Sprint("p", rapid.IntRange(0, m.drawn-1).Draw(t, "pod")))
	} else {
		p.UID = ledger.PodUID(fmt.Sprint("p", m.drawn))
		m.drawn++
	}
	delete(m.pods, p.UID)
	want := !m.place(r) && !m.preempts(&p)
	if places := m.b.Places(m.want(r), 2); (len(places) > 0) != m.place(r) || len(places) > 2 {
		t.Fatalf("Places = %v, want some: %t", places, m.place(r))
	}
	if got := m.b.Park(p, m.want(r), m.now); got != want {
		t.Fatalf("Park(%v, %v) = %t, want %t", p, m.want(r), got, want)
	}
	if want {
		p.since = m.now
		m.pods[p.UID] = modelPod{p, r}
	}
}

func (m *model) parked(t *rapid.T) {
	if m.drawn == 0 {
		return
	}
	uid := ledger.PodUID(fmt.Sprint("p", rapid.IntRange(0, m.drawn-1).Draw(t, "pod")))
	r := rapid.IntRange(0, m.wants()-1).Draw(t, "want")
	p, known := m.pods[uid]
	if rapid.Bool().Draw(t, "same") {
		r = p.want
	}
	want := known && r == p.want && !m.place(r) && !m.preempts(&p.Pod) && m.now.Before(p.since.Add(ParkedMost))
	if got := m.b.Parked(uid, m.want(r), m.now); got != want {
		t.Fatalf("Parked(%s, %v) = %t, want %t", uid, m.want(r), got, want)
	}
	if !want {
		delete(m.pods, uid)
	}
}

// wake checks that those are woken who come first among those who ask for the same, and nobody whom no node can take.
func (m *model) wake(t *rapid.T) time.Duration {
	woken, more := m.b.Wake(m.now)
	for _, p := range woken {
		if known, ok := m.pods[p.UID]; ok && m.preempts(&known.Pod) {
			delete(m.pods, p.UID)
		}
	}
	woken = slices.DeleteFunc(woken, func(p Pod) bool { return m.preempts(&p) })
	for r := range m.wants() {
		waiting := m.waiting(r)
		n := 0
		for _, p := range woken {
			if q, known := m.pods[p.UID]; known && q.want == r {
				n++
			}
		}
		if n > 0 && !m.place(r) {
			t.Fatalf("%d pods are woken that no node can take: %v", n, woken)
		}
		if more == 0 && n < len(waiting) && m.place(r) {
			t.Fatalf("%d of %d pods are woken, and nothing says that there are more", n, len(waiting))
		}
		for _, p := range waiting[:n] {
			if !slices.ContainsFunc(woken, func(w Pod) bool { return w.UID == p.UID }) {
				t.Fatalf("%v is first, and others are woken: %v", p, woken)
			}
		}
	}
	for _, p := range woken {
		if _, known := m.pods[p.UID]; !known {
			t.Fatalf("%v is woken and was not parked", p)
		}
		delete(m.pods, p.UID)
	}
	return more
}

// settle wakes until nothing is left to do, and checks that nobody sleeps beside cards that it could have.
func (m *model) settle(t *rapid.T) {
	for turns := 0; ; turns++ {
		more := m.wake(t)
		if more == 0 {
			break
		}
		if turns > 100 {
			t.Fatal("there is more to do after 100 turns")
		}
		m.now = m.now.Add(more)
	}
	for _, p := range m.pods {
		if m.place(p.want) {
			t.Fatalf("%v sleeps beside cards that it could have", p)
		}
		if m.preempts(&p.Pod) {
			t.Fatalf("%v sleeps though it may preempt", p)
		}
	}
}

// TestModel holds a Backlog against a list of pods and nodes.
func TestModel(t *testing.T) {
	usual := machine(t)
	numa := wholeCards(4)
	numa.NUMA = allocate.NUMARequire
	fits := fitsBy(allocate.NewChooser())
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			b: New(fits), fits: fits, now: start, lowest: math.MaxInt32, nodes: map[ledger.NodeName]*ledger.NodeGPUAllocation{}, pods: map[ledger.PodUID]modelPod{},
			requests: []*allocate.Request{wholeCards(1), wholeCards(4), wholeCards(8), numa, shareOf(10 * gib), shareOf(90 * gib)},
		}
		m.admitted[0], m.admitted[1] = map[ledger.NodeName]bool{"a": true, "b": true, "c": true}, map[ledger.NodeName]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"node": func(t *rapid.T) { m.drawNode(t, usual) },
			"park": m.park,
			"many": func(t *rapid.T) {
				for range rapid.IntRange(1, 30).Draw(t, "pods") {
					m.park(t)
				}
			},
			"parked": m.parked,
			"admission": func(t *rapid.T) {
				class, name := rapid.IntRange(0, 1).Draw(t, "class"), ledger.NodeName(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "node"))
				m.admitted[class][name] = !m.admitted[class][name]
				m.b.Touch(name)
			},
			"lowest": func(t *rapid.T) {
				m.lowest = rapid.SampledFrom([]int32{0, 1, 2, math.MaxInt32}).Draw(t, "lowest")
				m.b.SetLowest(m.lowest)
			},
			"wake":   func(t *rapid.T) { m.wake(t) },
			"settle": m.settle,
			"time": func(t *rapid.T) {
				m.now = m.now.Add(rapid.SampledFrom([]time.Duration{1, turn / 2, turn, ParkedMost / 2, ParkedMost}).Draw(t, "passes"))
			},
			"forget": func(t *rapid.T) {
				if m.drawn > 0 {
					uid := ledger.PodUID(fmt.Sprint("p", rapid.IntRange(0, m.drawn-1).Draw(t, "pod")))
					m.b.Forget(uid)
					delete(m.pods, uid)
				}
			},
			"reset": func(*rapid.T) {
				m.b.Reset()
				for name, a := range m.nodes {
					m.b.Set(name, a)
				}
			},
			"": func(t *rapid.T) {
				if m.b.Len() != len(m.pods) {
					t.Fatalf("%d pods are parked, want %d", m.b.Len(), len(m.pods))
				}
			},
		})
		m.settle(t)
	})
}
