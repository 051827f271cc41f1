package engine

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// inFlight are the pods whose Binding is being sent. Reading the ledger and entering a pod here is one step, and so is
// finding that a pod is not here and giving its cards back: no Binding leaves for cards that were given back meanwhile.
type inFlight struct {
	// mu is taken before the ledger's lock.
	mu   sync.Mutex
	pods map[ledger.PodUID]bool
}

// begin enters a pod that still holds, in flight, exactly these cards on this node. The error says what became of them.
func (f *inFlight) begin(l *ledger.Ledger, uid ledger.PodUID, node ledger.NodeName, cards []allocate.CardShare) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	held, stage, ok := l.Holding(uid)
	switch {
	case f.pods[uid]:
		return errors.New("a Binding of the pod is under way already")
	case !ok:
		return errors.New("its reservation was given back: the pod was deleted, its gang let go, or the reservation found to be left over")
	case stage != ledger.StageAssumed:
		return fmt.Errorf("its cards on node %s are in stage %s, not in that of a reservation", held.Node, stage)
	case held.Node != node || !slices.Equal(held.Cards, cards):
		return fmt.Errorf("it now holds other cards, on node %s", held.Node)
	}
	f.pods[uid] = true
	return nil
}

func (f *inFlight) end(uid ledger.PodUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pods, uid)
}

// Binding reports whether a Binding of the pod is being sent.
func (e *Engine) Binding(uid ledger.PodUID) bool {
	e.inFlight.mu.Lock()
	defer e.inFlight.mu.Unlock()
	return e.inFlight.pods[uid]
}

// ForgetIdle is ledger.Forget for a reservation that was left over: it does nothing while a Binding of the pod is being
// sent, and none will be sent afterwards.
func (e *Engine) ForgetIdle(uid ledger.PodUID) bool {
	e.inFlight.mu.Lock()
	defer e.inFlight.mu.Unlock()
	if e.inFlight.pods[uid] || !e.ledger.Forget(uid) {
		return false
	}
	e.freed()
	return true
}
