package ledger

import "fmt"

// AssumeAll assumes all holdings or none: the transaction of a gang. Every holding is checked beside those before it,
// so two may share a node or a card only where it has room for both. Holdings that their pods already have are
// skipped. The error is the first one that Assume would give; a UID that stands twice in hs is an *InvalidError.
// After an error nothing is changed.
//
// No other operation comes between. Readers of single nodes may see the new state of one node before that of another.
func (l *Ledger) AssumeAll(hs []Holding) error {
	if err := validateBatch(hs); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	pending := map[NodeName]*NodeGPUAllocation{}
	for i := range hs {
		n, a, _, err := l.admit(&hs[i], pending)
		if err != nil {
			return err
		}
		if n != nil {
			pending[hs[i].Node] = a.joined(&hs[i])
		}
	}
	for i := range hs {
		if h := &hs[i]; l.pods[h.UID] == nil {
			n := l.entry(h.Node)
			l.insert(n, h, StageAssumed)
			l.touch(n)
		}
	}
	l.flush()
	return nil
}

func validateBatch(hs []Holding) error {
	seen := make(map[PodUID]struct{}, len(hs))
	for i := range hs {
		if err := hs[i].validateAssumed(); err != nil {
			return fmt.Errorf("holding %d of %d: %w", i+1, len(hs), err)
		}
		if _, ok := seen[hs[i].UID]; ok {
			return &InvalidError{Field: fmt.Sprintf("holdings[%d].uid", i), Value: string(hs[i].UID), Reason: "the pod stands twice in one transaction"}
		}
		seen[hs[i].UID] = struct{}{}
	}
	return nil
}

// joined is the state with one more holding by name, for checking the next holding of a transaction.
func (a *NodeGPUAllocation) joined(h *Holding) *NodeGPUAllocation {
	base, extra := a.parts()
	return a.rebuilt(base, append(extra, *h), 1)
}
