package ledger

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	raceWriters = 8
	raceReaders = 4
	raceOps     = 3000
	raceNodes   = 5
)

func raceName(i int) NodeName { return NodeName(fmt.Sprint("n", i)) }

// TestConcurrent runs random operations in eight goroutines while others read: every state that a reader sees agrees
// with itself and is not older than the one before, and what Assume took nobody else took.
func TestConcurrent(t *testing.T) {
	l := New()
	topologies := make([][2]*topology.Node, raceNodes)
	for i := range topologies {
		cards := cardsN8s(fmt.Sprint("c", i, "-"))
		sick := append([]topology.Card{}, cards...)
		sick[i].Healthy = false
		topologies[i] = [2]*topology.Node{build(t, cards), build(t, sick)}
		l.SetNode(raceName(i), topologies[i][0])
	}
	var owners [raceNodes][8]sync.Mutex // held by who has assumed the card, to prove that nobody else can
	done := make(chan struct{})
	var readers, writers sync.WaitGroup
	for range raceReaders {
		readers.Go(func() { raceRead(t, l, done) })
	}
	for w := range raceWriters {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(w), 1))
			for i := range raceOps {
				uid := PodUID(fmt.Sprintf("p%d-%d", w, i))
				switch r.IntN(8) {
				case 0:
					n := r.IntN(raceNodes)
					l.SetNode(raceName(n), topologies[n][r.IntN(2)])
				case 1:
					raceForeign(t, l, uid, r)
				case 2:
					raceBatch(t, l, uid, r)
				default:
					raceAssume(t, l, uid, r, &owners)
				}
			}
		})
	}
	writers.Wait()
	close(done)
	readers.Wait()
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	if s := l.Stats(); s.Pods() != 0 {
		t.Errorf("left over: %+v", s)
	}
	for i := range raceNodes {
		l.SetNode(raceName(i), topologies[i][0])
		if a := l.Node(raceName(i)); a.Free != 0xff {
			t.Errorf("node %s: free %s, use %+v", a.Name, a.Free, a.Use)
		}
	}
}

// raceRead reads all nodes until done is closed.
func raceRead(t *testing.T, l *Ledger, done <-chan struct{}) {
	last := map[NodeName]uint64{}
	for {
		for a := range l.Nodes() {
			if err := a.check(); err != nil {
				t.Errorf("node %s: %v", a.Name, err)
				return
			}
			if a.Generation < last[a.Name] {
				t.Errorf("node %s: generation %d after %d", a.Name, a.Generation, last[a.Name])
				return
			}
			last[a.Name] = a.Generation
		}
		if err := l.Check(); err != nil {
			t.Error(err)
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

// raceAssume takes a card, holds it for a while and gives it back in one of the ways there are.
func raceAssume(t *testing.T, l *Ledger, uid PodUID, r *rand.Rand, owners *[raceNodes][8]sync.Mutex) {
	n := r.IntN(raceNodes)
	a := l.Node(raceName(n))
	at := a.Free.Lowest()
	if at < 0 {
		return
	}
	c := a.Topology.Card(at)
	h := Holding{UID: uid, Node: a.Name, Cards: []allocate.CardShare{whole(c, at)}}
	if l.Assume(h) != nil {
		return
	}
	if !owners[n][at].TryLock() {
		t.Errorf("node %s: card %d was sold twice", a.Name, at)
		return
	}
	if got, stage, ok := l.Holding(uid); !ok || stage != StageAssumed || !got.equal(&h) {
		t.Errorf("pod %s: %+v, %s, %t", uid, got, stage, ok)
	}
	gone := func(ok bool) {
		if !ok {
			t.Errorf("pod %s was not given back", uid)
		}
	}
	how := r.IntN(4)
	switch how {
	case 0:
		l.Confirm(uid)
	case 1:
		l.Suspect(uid)
	case 2:
		if err := l.Adopt(h); err != nil {
			t.Error(err)
		}
	}
	owners[n][at].Unlock()
	switch how {
	case 1:
		gone(l.Refute(uid))
	case 3:
		gone(l.Forget(uid))
	default:
		gone(l.Release(uid))
	}
}

// raceForeign adopts what may well over-commit a node, dry-runs its end and ends it.
func raceForeign(t *testing.T, l *Ledger, uid PodUID, r *rand.Rand) {
	h := Holding{UID: uid, Node: raceName(r.IntN(raceNodes)), UnknownCards: 1 + r.IntN(3)}
	if err := l.Adopt(h); err != nil {
		t.Error(err)
	}
	a := l.Node(h.Node)
	less, err := a.Without(h)
	if err != nil {
		t.Errorf("the pod just adopted is not there: %v", err)
		return
	}
	if err := less.check(); err != nil {
		t.Error(err)
	}
	if !l.Release(uid) {
		t.Errorf("pod %s was not there", uid)
	}
}

// raceBatch takes a card on two nodes or none.
func raceBatch(t *testing.T, l *Ledger, uid PodUID, r *rand.Rand) {
	var hs []Holding
	for i := range 2 {
		a := l.Node(raceName((r.IntN(raceNodes) + i) % raceNodes))
		if at := a.Free.Lowest(); at >= 0 {
			hs = append(hs, Holding{UID: uid + PodUID(fmt.Sprint("-", i)), Node: a.Name, Cards: []allocate.CardShare{whole(a.Topology.Card(at), at)}})
		}
	}
	taken := l.AssumeAll(hs) == nil
	for _, h := range hs {
		if got := l.Release(h.UID); got != taken {
			t.Errorf("pod %s: held %t, transaction %t", h.UID, got, taken)
		}
	}
}
