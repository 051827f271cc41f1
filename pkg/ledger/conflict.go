package ledger

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// ConflictKind is the kind of a contradiction between the holdings of a node and its cards.
type ConflictKind uint8

// The kinds. The first four say that some card is held and it is not known which or by how many: no card of the
// node is safe to give out, and the node is in quarantine. The others close one card.
const (
	// ConflictOvercommit: the holders of a card together hold more than it has, or one of them holds it whole.
	ConflictOvercommit ConflictKind = iota + 1
	// ConflictForeign: pods hold more unknown whole cards than the node has free.
	ConflictForeign
	// ConflictForeignMIG: pods hold more unknown instances of a profile than the node has free.
	ConflictForeignMIG
	// ConflictLost: a pod holds a card that is not listed under its index, and nothing shows which one it is now.
	ConflictLost
	// ConflictModeOn: a pod holds a share of a card that is now in MIG mode.
	ConflictModeOn
	// ConflictModeOff: a pod holds a MIG instance of a card that is not in MIG mode.
	ConflictModeOff
	// ConflictInstance: a pod holds an instance that the card in MIG mode does not have.
	ConflictInstance
)

func (k ConflictKind) closesNode() bool { return k <= ConflictLost }

// Conflict is one contradiction between the holdings of a node and its cards.
type Conflict struct {
	Kind ConflictKind
	// Card is the card's index, -1 where no one card is meant; for ConflictLost the index that the pod's share
	// names. UUID is the card's UUID, empty if unknown.
	Card int
	UUID string
	// Profile is the MIG profile that is meant, empty if none.
	Profile string
	// Held and Free count unknown cards or instances and the free ones among which they must be; 0 for other kinds.
	Held, Free int
	// Pods are the pods involved, in ascending order: their names, or UIDs where they have no name.
	Pods []string
}

// String says in one sentence what contradicts what.
func (c Conflict) String() string {
	pods := podList(c.Pods)
	switch c.Kind {
	case ConflictOvercommit:
		return fmt.Sprintf("%s is over-committed by %s", c.card(), pods)
	case ConflictForeign:
		return fmt.Sprintf("pods whose cards are not known hold %d cards, only %d are free (%s)", c.Held, c.Free, pods)
	case ConflictForeignMIG:
		return fmt.Sprintf("pods whose cards are not known hold %d instances of %.64s, only %d are free (%s)", c.Held, c.Profile, c.Free, pods)
	case ConflictLost:
		return fmt.Sprintf("%s, held by %s, is not listed and may be any card of the node", c.card(), pods)
	case ConflictModeOn:
		return fmt.Sprintf("%s is in MIG mode, but shares of it are held by %s", c.card(), pods)
	case ConflictModeOff:
		return fmt.Sprintf("%s is not in MIG mode, but instances of it are held by %s", c.card(), pods)
	case ConflictInstance:
		return fmt.Sprintf("%s lacks MIG instances held by %s", c.card(), pods)
	}
	return fmt.Sprintf("conflict of unknown kind %d", c.Kind)
}

func (c Conflict) card() string {
	if c.UUID == "" {
		return fmt.Sprintf("card %d", c.Card)
	}
	return fmt.Sprintf("card %d (%.64s)", c.Card, c.UUID)
}

// podList names up to eight pods.
func podList(pods []string) string {
	const most = 8
	switch {
	case len(pods) == 0:
		return "other pods"
	case len(pods) > most:
		return fmt.Sprintf("pods %s and %d more", strings.Join(pods[:most], ", "), len(pods)-most)
	case len(pods) == 1:
		return "pod " + pods[0]
	}
	last := len(pods) - 1
	return "pods " + strings.Join(pods[:last], ", ") + " and " + pods[last]
}

// label is how a holding is named in reasons.
func (h *Holding) label() string {
	if h.Pod != "" {
		return h.Pod
	}
	return string(h.UID)
}

func (c Conflict) equal(o Conflict) bool {
	return c.Kind == o.Kind && c.Card == o.Card && c.UUID == o.UUID && c.Profile == o.Profile &&
		c.Held == o.Held && c.Free == o.Free && slices.Equal(c.Pods, o.Pods)
}

func sortConflicts(cs []Conflict) {
	slices.SortFunc(cs, func(a, b Conflict) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Card, b.Card), cmp.Compare(a.UUID, b.UUID),
			cmp.Compare(a.Profile, b.Profile), slices.Compare(a.Pods, b.Pods))
	})
}

func sortMissing(ms []MissingShare) {
	slices.SortFunc(ms, func(a, b MissingShare) int {
		return cmp.Or(cmp.Compare(a.Share.UUID, b.Share.UUID), cmp.Compare(a.Share.Index, b.Share.Index),
			cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Share.SliceMask, b.Share.SliceMask),
			cmp.Compare(a.Share.VRAMBytes, b.Share.VRAMBytes), cmp.Compare(a.Share.ComputeMilli, b.Share.ComputeMilli),
			cmp.Compare(a.Share.MIGProfile, b.Share.MIGProfile))
	})
}
