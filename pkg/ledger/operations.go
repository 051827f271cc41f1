package ledger

import "github.com/gputopology/gpu-topology-scheduler/pkg/allocate"

// Assume takes cards for a pod in its scheduling cycle: in one critical section it checks that they are free and
// records them. The error is an *InvalidError for a holding that cannot be true, a *ConflictError if the cards are
// not free or the pod already holds something else, ErrReleased if the pod is gone. After an error nothing is
// changed. Assuming again what the pod holds, in whatever stage, is no error and changes nothing.
func (l *Ledger) Assume(h Holding) error {
	if err := h.validateAssumed(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	n, a, shares, err := l.admit(&h, nil)
	if err != nil || n == nil {
		return err
	}
	l.insert(n, &h, StageAssumed)
	l.grown(n, a, shares)
	return nil
}

// admit checks whether a holding may be assumed. Where it may, it returns the node, the state it was checked
// against, and the shares with the indices that the cards have now; n is nil where the pod holds this already.
// pending overrides the published states of nodes.
func (l *Ledger) admit(h *Holding, pending map[NodeName]*NodeGPUAllocation) (*node, *NodeGPUAllocation, []allocate.CardShare, error) {
	if p := l.pods[h.UID]; p != nil {
		if p.equal(h) {
			return nil, nil, nil, nil
		}
		return nil, nil, nil, &ConflictError{UID: h.UID, Node: h.Node, HeldBy: h.UID, Err: errHoldsOther}
	}
	if l.tombstones.has(h.UID) {
		return nil, nil, nil, ErrReleased
	}
	n := l.nodes.node(h.Node)
	if n == nil || !n.known {
		return nil, nil, nil, &ConflictError{UID: h.UID, Node: h.Node, Err: errNoNode}
	}
	a := pending[h.Node]
	if a == nil {
		a = n.state.Load()
	}
	switch {
	case a.Topology == nil:
		return nil, nil, nil, &ConflictError{UID: h.UID, Node: h.Node, Err: errNoFacts}
	case a.Quarantined:
		return nil, nil, nil, &ConflictError{UID: h.UID, Node: h.Node, Err: &quarantineError{a}}
	}
	shares := a.placed(h.Cards)
	if err := a.CanHold(shares); err != nil {
		return nil, nil, nil, &ConflictError{UID: h.UID, Node: h.Node, HeldBy: n.blame(a, shares), Err: err}
	}
	return n, a, shares, nil
}

// placed returns shares with the indices that their cards have now; a card that the node does not list keeps the
// share's UUID, by which CanHold refuses it.
func (a *NodeGPUAllocation) placed(shares []allocate.CardShare) []allocate.CardShare {
	for i := range shares {
		if at, where := place(a.Topology, &shares[i]); where != here || at != shares[i].Index {
			return a.moved(shares)
		}
	}
	return shares
}

func (a *NodeGPUAllocation) moved(shares []allocate.CardShare) []allocate.CardShare {
	out := make([]allocate.CardShare, len(shares))
	for i := range shares {
		out[i] = shares[i]
		if at, where := place(a.Topology, &shares[i]); where == here {
			out[i].Index = at
		}
	}
	return out
}

// blame returns the lowest UID among the recorded pods that hold a part of a wanted card of state a, or that a wanted
// card or instance is set aside for; empty if there is none.
func (n *node) blame(a *NodeGPUAllocation, wanted []allocate.CardShare) PodUID {
	var who PodUID
	for _, p := range n.pods {
		if (who == "" || p.UID < who) && p.standsInWay(a, wanted) {
			who = p.UID
		}
	}
	return who
}

func (h *Holding) standsInWay(a *NodeGPUAllocation, wanted []allocate.CardShare) bool {
	for i := range wanted {
		if h.UnknownCards > 0 && a.Foreign.Has(wanted[i].Index) || h.mayHold(a, &wanted[i]) {
			return true
		}
		for j := range h.Cards {
			if at, where := place(a.Topology, &h.Cards[j]); where == here && at == wanted[i].Index {
				return true
			}
		}
	}
	return false
}

// mayHold reports whether a wanted instance is set aside for the unknown instances of h.
func (h *Holding) mayHold(a *NodeGPUAllocation, wanted *allocate.CardShare) bool {
	for _, m := range h.UnknownMIG {
		for _, f := range a.ForeignMIG() {
			if f.MIGProfile == m.Profile && f.Index == wanted.Index && f.SliceMask&wanted.SliceMask != 0 {
				return true
			}
		}
	}
	return false
}

// grown publishes the node after a holding with these admitted shares was added to state a.
func (l *Ledger) grown(n *node, a *NodeGPUAllocation, shares []allocate.CardShare) {
	if a.special == nil {
		l.publish(n, a.add(shares))
		return
	}
	l.refresh(n)
}

// Confirm says that the pod's bind succeeded. It returns true if the pod is bound in the ledger now; false means
// that the ledger has no holding for it, and the caller must Adopt what the API server says.
func (l *Ledger) Confirm(uid PodUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pods[uid]
	if p == nil {
		return false
	}
	l.setStage(p, StageBound)
	return true
}

// Suspect says that it is not known whether the pod's bind was committed: from now on Forget does not release it,
// only Refute and Release do. It returns true if the pod is in StageUnknown now.
func (l *Ledger) Suspect(uid PodUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pods[uid]
	if p == nil || p.stage == StageBound {
		return false
	}
	l.setStage(p, StageUnknown)
	return true
}

// Forget gives back what a pod took with Assume: its scheduling cycle failed. It returns true if cards were given
// back; a pod in another stage, or without a holding, is left as it is.
func (l *Ledger) Forget(uid PodUID) bool { return l.giveBack(uid, StageAssumed) }

// Refute says that a pod in StageUnknown was read back and is not bound: its cards are given back, and it may be
// assumed again. It returns true if cards were given back; pods in other stages are left as they are.
func (l *Ledger) Refute(uid PodUID) bool { return l.giveBack(uid, StageUnknown) }

func (l *Ledger) giveBack(uid PodUID, stage Stage) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.pods[uid]
	if p == nil || p.stage != stage {
		return false
	}
	l.shrink(p)
	return true
}

// shrink drops a holding and publishes its node.
func (l *Ledger) shrink(p *pod) {
	if a := p.node.state.Load(); a != nil && a.special == nil {
		next := a.remove(&p.Holding)
		l.publish(l.drop(p), next)
		return
	}
	l.refresh(l.drop(p))
}

// Release says that the pod is gone or terminal. What it held in any stage is given back, and its UID is remembered:
// a late Assume or Adopt is refused with ErrReleased. It returns true if cards were given back.
func (l *Ledger) Release(uid PodUID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tombstones.add(uid)
	p := l.pods[uid]
	if p == nil {
		return false
	}
	l.shrink(p)
	return true
}

// Adopt records what the API server says: the pod is bound and holds this. It replaces what the pod held, on whatever
// node and in whatever stage, in one change. It records the holding even where the cards are not free, the node has
// no such card, or the node is not known: the state of the node then shows the conflict. The error is an
// *InvalidError, or ErrReleased if the pod is gone; after an error nothing is changed. The caller answers an
// *InvalidError by adopting the pod with UnknownCards instead.
func (l *Ledger) Adopt(h Holding) error {
	if err := h.validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pods[h.UID] != nil || l.tombstones.has(h.UID) {
		err := l.replace(&h)
		l.flush()
		return err
	}
	n := l.entry(h.Node)
	a := n.state.Load()
	l.insert(n, &h, StageBound)
	if a != nil && a.special == nil && h.known() {
		if shares := a.placed(h.Cards); a.CanHold(shares) == nil {
			l.publish(n, a.add(shares))
			return nil
		}
	}
	l.refresh(n)
	return nil
}

// Replace is Release(old) and Adopt(h) in one change: the pod's name was taken by a new pod before the ledger heard
// of the old one's end. No reader sees the node between the two. ErrReleased means that the new pod is gone as well;
// the old one is released all the same. After an *InvalidError nothing is changed. With old == h.UID it is Adopt.
func (l *Ledger) Replace(old PodUID, h Holding) error {
	if err := h.validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var left *node
	if old != h.UID {
		l.tombstones.add(old)
		if p := l.pods[old]; p != nil {
			left = l.drop(p)
		}
	}
	err := l.replace(&h)
	if left != nil {
		l.touch(left)
	}
	l.flush()
	return err
}

// replace records a bound holding in place of what its pod held, and touches the nodes that change: the new node
// before the one that the pod leaves.
func (l *Ledger) replace(h *Holding) error {
	if l.tombstones.has(h.UID) {
		return ErrReleased
	}
	p := l.pods[h.UID]
	if p != nil && p.equal(h) {
		l.setStage(p, StageBound)
		return nil
	}
	n := l.entry(h.Node)
	l.touch(n)
	if p != nil {
		l.touch(l.drop(p))
	}
	l.insert(n, h, StageBound)
	return nil
}

// Restore is Adopt for a pod that the ledger took for gone and that turns out to be alive: in one change its UID is not
// released any more, and it holds this. For a UID that was not released it is Adopt. After an *InvalidError, the only
// error, nothing is changed.
func (l *Ledger) Restore(h Holding) error {
	if err := h.validate(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tombstones.drop(h.UID)
	err := l.replace(&h)
	l.flush()
	return err
}
