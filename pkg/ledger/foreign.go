package ledger

import (
	"cmp"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// setForeignAside takes cards and instances out of the free ones for pods whose cards nobody can name, and reports
// whether there are such pods. Which cards those pods really have is unknown; what counts is the number. The choice
// depends on what is held and not on the order of events: usable ones first, the highest index first, so that the
// low cards stay together.
func (a *NodeGPUAllocation) setForeignAside(sp *special, hs []*Holding) bool {
	var cards int
	var pods []string
	var mig []ProfileCount
	for _, h := range hs {
		if h.UnknownCards > 0 {
			cards += h.UnknownCards
			pods = append(pods, h.label())
		}
		mig = append(mig, h.UnknownMIG...)
	}
	renamed, holders := a.renamed(sp)
	cards, pods = cards+renamed, append(pods, holders...)
	a.setCardsAside(sp, cards, pods)
	slices.SortFunc(mig, func(x, y ProfileCount) int { return cmp.Compare(x.Profile, y.Profile) })
	for i := 0; i < len(mig); {
		total := ProfileCount{Profile: mig[i].Profile}
		for ; i < len(mig) && mig[i].Profile == total.Profile; i++ {
			total.Count += mig[i].Count
		}
		a.setInstancesAside(sp, total, hs)
	}
	return cards > 0 || len(mig) > 0
}

// renamed counts the cards that pods hold under a UUID which the node does not list, at an index that it does list. Whether
// the card has left, or its description calls it by another name now, cannot be told apart: as many cards are set aside as
// such UUIDs, so that memory in use never looks free. Instances of cards in MIG mode have a rule of their own: ConflictInstance
// or, where the card is not listed, Missing.
func (a *NodeGPUAllocation) renamed(sp *special) (cards int, pods []string) {
	var uuids []string
	for i := range sp.missing {
		if s := &sp.missing[i].Share; s.UUID != "" && s.MIGProfile == "" && s.Index < a.Topology.Len() {
			uuids = append(uuids, s.UUID)
			pods = append(pods, sp.missing[i].Pod)
		}
	}
	return len(sorted(uuids)), pods
}

// setCardsAside closes free cards for so many foreign whole cards. Where the usable ones do not suffice, idle sick
// cards do: a pod may sit on a card that has failed since.
func (a *NodeGPUAllocation) setCardsAside(sp *special, want int, pods []string) {
	t := a.Topology
	idle := t.All() &^ t.MIGCards() &^ a.held()
	usable := highest(idle&t.Usable(), want)
	sick := highest(idle&^t.Usable(), want-usable.Len())
	a.Foreign = usable | sick
	a.Closed |= a.Foreign
	if found := a.Foreign.Len(); found < want {
		sp.conflicts = append(sp.conflicts, Conflict{Kind: ConflictForeign, Card: -1, Held: want, Free: found, Pods: sorted(pods)})
	}
}

// highest returns the n highest cards of s, all where it has fewer.
func highest(s topology.GPUSet, n int) topology.GPUSet {
	for s.Len() > max(n, 0) {
		s = s.Without(s.Lowest())
	}
	return s
}

// setInstancesAside occupies free instances of one profile.
func (a *NodeGPUAllocation) setInstancesAside(sp *special, want ProfileCount, hs []*Holding) {
	t := a.Topology
	missing := want.Count
	for _, from := range []topology.GPUSet{t.MIGCards() & t.Usable(), t.MIGCards() &^ t.Usable()} {
		for i := t.Len() - 1; i >= 0 && missing > 0; i-- {
			if from.Has(i) {
				missing -= a.occupyInstances(sp, i, want.Profile, missing)
			}
		}
	}
	if missing == 0 {
		return
	}
	var pods []string
	for _, h := range hs {
		if slices.ContainsFunc(h.UnknownMIG, func(p ProfileCount) bool { return p.Profile == want.Profile }) {
			pods = append(pods, h.label())
		}
	}
	sp.conflicts = append(sp.conflicts, Conflict{
		Kind: ConflictForeignMIG, Card: -1, Profile: want.Profile,
		Held: want.Count, Free: want.Count - missing, Pods: sorted(pods),
	})
}

// occupyInstances occupies at most want free instances of a profile on card i, the highest slice first, and returns
// how many.
func (a *NodeGPUAllocation) occupyInstances(sp *special, i int, profile string, want int) int {
	card := a.Topology.Card(i)
	free := slices.DeleteFunc(slices.Clone(card.MIG), func(m topology.MIGInstance) bool {
		return m.Profile != profile || m.SliceMask() == 0 || m.SliceMask()&a.Use[i].SliceMask != 0
	})
	slices.SortFunc(free, func(x, y topology.MIGInstance) int { return cmp.Compare(y.Start, x.Start) })
	found := 0
	for _, m := range free {
		if found == want || m.SliceMask()&a.Use[i].SliceMask != 0 {
			continue
		}
		s := allocate.CardShare{Index: i, UUID: card.UUID, SliceMask: m.SliceMask(), VRAMBytes: m.VRAMBytes, MIGProfile: profile}
		allocate.Occupy(&a.Use[i], s)
		sp.foreignMIG = append(sp.foreignMIG, s)
		found++
	}
	return found
}
