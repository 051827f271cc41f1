package ledger

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// Check verifies every invariant and returns what is broken, nil if nothing is. It may be called at any time; nodes
// are checked one by one, so other operations go on in between.
//
//   - Every published state equals the one derived from the node's cards and holdings alone.
//   - On a node that is not in quarantine no card outside a conflict is held beyond its memory or compute, and free,
//     held, closed, unusable and MIG cards together are all its cards.
//   - Every holding is listed on its node and only there; the stages add up; no pod that holds is released.
//   - There is no entry for a node that is neither known nor holds anything, and none waits to be published.
func (l *Ledger) Check() error {
	errs := l.checkPods()
	for _, name := range l.nodes.names() {
		errs = append(errs, l.checkNode(name)...)
	}
	return errors.Join(errs...)
}

// checkPods verifies the records of holdings. What is broken is collected under the lock and described after it.
func (l *Ledger) checkPods() []error {
	var misplaced, undead []PodUID
	var staged [StageBound + 1]int
	l.mu.Lock()
	for uid, p := range l.pods {
		if p.UID != uid || p.node == nil || p.node.name != p.Node || p.at >= len(p.node.pods) || p.node.pods[p.at] != p ||
			l.nodes.node(p.Node) != p.node || p.stage < StageAssumed || p.stage > StageBound {
			misplaced = append(misplaced, uid)
			continue
		}
		if l.tombstones.has(uid) {
			undead = append(undead, uid)
		}
		staged[p.stage]++
	}
	counted, touched, tombs, listed := l.staged, len(l.touched), l.tombstones.count, l.tombstones.listed()
	l.mu.Unlock()

	var errs []error
	for _, uid := range misplaced {
		errs = append(errs, fmt.Errorf("pod %s: its record and its node's disagree", uid))
	}
	for _, uid := range undead {
		errs = append(errs, fmt.Errorf("pod %s: released, but holds cards", uid))
	}
	if len(misplaced) == 0 && staged != counted {
		errs = append(errs, fmt.Errorf("holdings by stage: counted %v, are %v", counted, staged))
	}
	if touched != 0 {
		errs = append(errs, fmt.Errorf("%d nodes wait to be published", touched))
	}
	if tombs != listed || tombs > maxTombstones {
		errs = append(errs, fmt.Errorf("tombstones: %d counted, %d in the lists", tombs, listed))
	}
	return errs
}

// checkNode verifies one node's published state against a new one.
func (l *Ledger) checkNode(name NodeName) []error {
	l.mu.Lock()
	n := l.nodes.node(name)
	if n == nil {
		l.mu.Unlock()
		return nil
	}
	known, holdings, published, generation := n.known, len(n.pods), n.state.Load(), l.generation
	strangers := slices.ContainsFunc(n.pods, func(p *pod) bool { return p.node != n || l.pods[p.UID] != p })
	var want *NodeGPUAllocation
	if known {
		want = l.derived(n)
	}
	l.mu.Unlock()

	var errs []error
	broken := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("node %s: "+format, append([]any{name}, args...)...))
	}
	switch {
	case strangers:
		broken("lists a holding that is not recorded")
	case !known && holdings == 0:
		broken("entry of a node that is neither known nor in use")
	case known != (published != nil):
		broken("known is %t, published is %t", known, published != nil)
	}
	if published == nil || want == nil {
		return errs
	}
	if published.Generation == 0 || published.Generation > generation {
		broken("generation %d is not in 1..%d", published.Generation, generation)
	}
	want.Generation = published.Generation
	if !reflect.DeepEqual(published, want) {
		broken("published state %+v, derived %+v", *published, *want)
	}
	if err := published.check(); err != nil {
		broken("%w", err)
	}
	return errs
}

// check verifies a state against itself.
func (a *NodeGPUAllocation) check() error {
	if err := a.View.Check(); err != nil {
		return err
	}
	if a.Topology == nil {
		if a.Free != 0 || a.Closed != 0 || a.Foreign != 0 || len(a.Use) != 0 {
			return errors.New("cards without a topology")
		}
		return nil
	}
	all, t := a.Topology.All(), a.Topology
	if got := a.Free | a.held() | a.Closed | t.All()&^t.Usable() | t.MIGCards(); got != all {
		return fmt.Errorf("cards %s are neither free nor held, closed, unusable or in MIG mode", all&^got)
	}
	if a.Free&(a.held()|a.Closed|a.Foreign) != 0 {
		return fmt.Errorf("free cards %s: held %s, closed %s, foreign %s", a.Free, a.held(), a.Closed, a.Foreign)
	}
	if a.Quarantined && a.Closed != all {
		return fmt.Errorf("in quarantine, but only %s are closed", a.Closed)
	}
	for i, u := range a.Use {
		if err := a.checkUse(i, u); err != nil {
			return err
		}
	}
	return nil
}

// checkUse verifies the use of card i. A card in conflict is exempt: its conflict says what is wrong.
func (a *NodeGPUAllocation) checkUse(i int, u allocate.CardUse) error {
	if u.Holders == 0 && u != (allocate.CardUse{}) {
		return fmt.Errorf("card %d: use without a holder: %+v", i, u)
	}
	if slices.ContainsFunc(a.Conflicts(), func(c Conflict) bool { return c.Card == i }) {
		return nil
	}
	if vram := a.Topology.Card(i).VRAMBytes; !a.Topology.MIGCards().Has(i) && vram > 0 && u.VRAMBytes > vram {
		return fmt.Errorf("card %d: %d of %d bytes are held", i, u.VRAMBytes, vram)
	}
	if u.ComputeMilli > allocate.MilliPerCard && !a.Topology.MIGCards().Has(i) {
		return fmt.Errorf("card %d: compute %d of %d is held", i, u.ComputeMilli, allocate.MilliPerCard)
	}
	return nil
}
