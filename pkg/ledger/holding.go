package ledger

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// NodeName is the name of a node.
type NodeName string

// PodUID is the UID of a pod. It is what the ledger goes by: a pod's name may be taken again by another pod.
type PodUID string

// ProfileCount is a number of MIG instances of one profile.
type ProfileCount struct {
	// Profile is NVIDIA's name of the size, for example "1g.10gb".
	Profile string
	// Count is the number of instances, 1 or more.
	Count int
}

// Holding is what one pod holds on one node. The ledger copies holdings in and out: what a caller passed or got is
// the caller's own.
type Holding struct {
	// UID is the pod's UID, not empty.
	UID PodUID
	// Pod is "namespace/name", for reasons, logs and for looking the pod up; no operation of the ledger depends on it.
	Pod string
	// Node is the node the pod is or will be bound to, not empty.
	Node NodeName
	// Cards are the shares of cards that are known. Their order is part of a holding's identity.
	Cards []allocate.CardShare
	// UnknownCards counts whole cards that the pod holds and nobody can name: the pod was placed by another
	// scheduler, or its record cannot be read.
	UnknownCards int
	// UnknownMIG counts MIG instances in the same way.
	UnknownMIG []ProfileCount
}

// Stage says how certain it is that a pod keeps what it holds.
type Stage uint8

// The stages; see the package documentation for the transitions.
const (
	// StageAssumed is a pod in its scheduling cycle: Forget releases it.
	StageAssumed Stage = iota + 1
	// StageUnknown is a pod whose bind may or may not have been committed: it holds until the pod is read back.
	StageUnknown
	// StageBound is a pod that the API server knows as bound.
	StageBound
)

// String returns "assumed", "unknown" or "bound".
func (s Stage) String() string {
	switch s {
	case StageAssumed:
		return "assumed"
	case StageUnknown:
		return "unknown"
	case StageBound:
		return "bound"
	}
	return "stage " + strconv.Itoa(int(s))
}

const (
	// maxShares bounds the shares of one holding: every instance of every card of a node.
	maxShares = topology.MaxCards * migSlices
	// maxUnknown bounds counts of unknown cards and instances, so that sums over a node stay exact.
	maxUnknown = 1 << 20
	// migSlices is the number of memory slices of a card in MIG mode (allocate.CardUse.SliceMask, bits 0 to 7).
	migSlices = 8
)

// validate refuses a holding that cannot be true, whatever the node looks like.
func (h *Holding) validate() error {
	switch {
	case h.UID == "":
		return &InvalidError{Field: "uid", Reason: "a holding has a pod UID"}
	case h.Node == "":
		return &InvalidError{Field: "node", Reason: "a holding has a node"}
	case h.UnknownCards < 0 || h.UnknownCards > maxUnknown:
		return &InvalidError{Field: "unknownCards", Value: strconv.Itoa(h.UnknownCards), Reason: "must be 0 to 2^20"}
	case len(h.Cards) > maxShares:
		return &InvalidError{Field: "cards", Value: strconv.Itoa(len(h.Cards)) + " shares", Reason: "a node has no room for so many"}
	case len(h.Cards) == 0 && h.UnknownCards == 0 && len(h.UnknownMIG) == 0:
		return &InvalidError{Field: "cards", Reason: "the holding is empty"}
	}
	for i := range h.Cards {
		if field, value, reason := shareFault(&h.Cards[i]); field != "" {
			return &InvalidError{Field: fmt.Sprintf("cards[%d].%s", i, field), Value: value, Reason: reason}
		}
	}
	for i, m := range h.UnknownMIG {
		switch {
		case m.Profile == "":
			return &InvalidError{Field: fmt.Sprintf("unknownMIG[%d].profile", i), Reason: "an instance has a profile"}
		case m.Count < 1 || m.Count > maxUnknown:
			return &InvalidError{Field: fmt.Sprintf("unknownMIG[%d].count", i), Value: strconv.Itoa(m.Count), Reason: "must be 1 to 2^20"}
		}
	}
	return nil
}

// validateAssumed is validate for a holding that this scheduler chose: all of its cards are known.
func (h *Holding) validateAssumed() error {
	switch {
	case h.UnknownCards != 0:
		return &InvalidError{Field: "unknownCards", Value: strconv.Itoa(h.UnknownCards), Reason: "only known cards can be assumed"}
	case len(h.UnknownMIG) != 0:
		return &InvalidError{Field: "unknownMIG", Value: strconv.Itoa(len(h.UnknownMIG)) + " profiles", Reason: "only known instances can be assumed"}
	}
	return h.validate()
}

// shareFault names the field of a share that cannot be true; field is empty where all can.
func shareFault(s *allocate.CardShare) (field, value, reason string) {
	switch {
	case s.Index < 0 || s.Index >= topology.MaxCards:
		return "index", strconv.Itoa(s.Index), fmt.Sprintf("must be 0 to %d", topology.MaxCards-1)
	case s.VRAMBytes < 0 || s.VRAMBytes > topology.MaxVRAMBytes:
		return "vramBytes", strconv.FormatInt(s.VRAMBytes, 10), fmt.Sprintf("must be 0 to %d", topology.MaxVRAMBytes)
	case s.ComputeMilli < 0 || s.ComputeMilli > allocate.MilliPerCard:
		return "computeMilli", strconv.Itoa(int(s.ComputeMilli)), fmt.Sprintf("must be 0 to %d", allocate.MilliPerCard)
	case s.MIGProfile != "" && (s.SliceMask == 0 || s.SliceMask >= 1<<migSlices):
		return "sliceMask", "0x" + strconv.FormatUint(s.SliceMask, 16), "a MIG instance has memory slices among bits 0 to 7"
	case s.MIGProfile == "" && !s.Whole() && s.VRAMBytes == 0:
		return "vramBytes", "0", "a share of a card has memory"
	}
	return "", "", ""
}

// equal reports whether two holdings of one UID hold the same.
func (h *Holding) equal(o *Holding) bool {
	return h.Node == o.Node && h.UnknownCards == o.UnknownCards &&
		slices.Equal(h.Cards, o.Cards) && slices.Equal(h.UnknownMIG, o.UnknownMIG)
}

// clone returns a copy that shares no memory with h.
func (h *Holding) clone() Holding {
	c := *h
	c.Cards = append([]allocate.CardShare(nil), h.Cards...)
	c.UnknownMIG = append([]ProfileCount(nil), h.UnknownMIG...)
	return c
}

// known reports whether every card of the holding is known.
func (h *Holding) known() bool { return h.UnknownCards == 0 && len(h.UnknownMIG) == 0 }
