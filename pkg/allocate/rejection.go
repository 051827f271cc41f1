package allocate

import (
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The values of Rejection.Reason: few and fixed, fit for a metric's label.
const (
	// ReasonWhole: too few cards can be given out whole.
	ReasonWhole = "too few free GPUs"
	// ReasonShare: too few cards have room for a share.
	ReasonShare = "no room for a share of a GPU"
	// ReasonMIG: too few instances of a profile are free.
	ReasonMIG = "too few free MIG instances"
	// ReasonUnknownGPUs: nothing is known of the node's cards.
	ReasonUnknownGPUs = "GPUs not known"
	// ReasonInvalid: the request or the view contradicts itself.
	ReasonInvalid = "invalid request or node state"
)

// Cause says why one card does not serve a claim.
type Cause uint8

// The causes. Each card of the node has exactly one, the first that holds in this order.
const (
	// CauseNone is a card that would serve.
	CauseNone Cause = iota
	// CauseUnhealthy is a card that its source reports sick, or that has a fault.
	CauseUnhealthy
	// CauseClosed is a card that is closed to new pods, for example held by a pod that does not say which it holds.
	CauseClosed
	// CauseMIGMode is a card in MIG mode where a whole card or a share is wanted.
	CauseMIGMode
	// CauseNotMIG is a card that is not in MIG mode where an instance is wanted.
	CauseNotMIG
	// CauseNoProfile is a card in MIG mode without an instance of the profile.
	CauseNoProfile
	// CauseUnknownMemory is a card of unknown memory: it takes no shares.
	CauseUnknownMemory
	// CauseTooSmall is a card with less memory than the share, used or not.
	CauseTooSmall
	// CauseUsed is a card of which other pods hold too much.
	CauseUsed
	// CauseNoCompute is a card of which other pods hold too much compute.
	CauseNoCompute
	// CauseOwn is a card that the pod's own other claims fill.
	CauseOwn
	// CauseFarNIC is a card that would serve, but has no network adapter at PIX or PXB under NICRequire.
	CauseFarNIC
	// CauseWrongNUMA is a card that would serve, but not on the NUMA node with the most such cards under NUMARequire.
	CauseWrongNUMA
	causes
)

var causeWords = [causes]string{
	CauseNone:          "fit",
	CauseUnhealthy:     "unhealthy",
	CauseClosed:        "closed",
	CauseMIGMode:       "MIG mode",
	CauseNotMIG:        "not MIG",
	CauseNoProfile:     "no such MIG profile",
	CauseUnknownMemory: "unknown memory",
	CauseTooSmall:      "too small",
	CauseUsed:          "used",
	CauseNoCompute:     "no compute left",
	CauseOwn:           "taken by this pod's other claims",
	CauseFarNIC:        "far NIC",
	CauseWrongNUMA:     "wrong NUMA",
}

// String returns the cause in one to five words, for example "wrong NUMA".
func (c Cause) String() string {
	if c < causes {
		return causeWords[c]
	}
	return "cause " + strconv.Itoa(int(c))
}

// Rejection says why a node does not serve a request now. It is an answer, not an error. It formats nothing until
// String is called.
type Rejection struct {
	// Reason is one of the Reason constants.
	Reason string
	// Claim is what could not be met, with the container's name where the pod has claims of several; of whole cards
	// it is the pod's total.
	Claim Claim
	// Have is what there is for Claim.Count: cards that would serve, or free instances of the profile.
	Have int
	// Counts says for each cause how many of the node's cards it concerns. Their sum is the number of cards.
	Counts [causes]int
	// LargestFree is, for a share, the most memory free on one card that is open for shares.
	LargestFree int64
	// NUMA and NIC are the request's policies.
	NUMA NUMAPolicy
	NIC  NICPolicy
	// Permanent is true where the node would not serve the request if no pod held anything on it: pods that leave
	// do not help.
	Permanent bool
	// Err is set with ReasonInvalid.
	Err error
}

// Cards returns the number of the node's cards.
func (r *Rejection) Cards() int {
	n := 0
	for _, c := range r.Counts {
		n += c
	}
	return n
}

// String says in one sentence what is needed, what there is and why not more, for example
// "needs 4 whole GPUs, 2 are free (5 used, 1 unhealthy)".
func (r *Rejection) String() string {
	switch {
	case r.Reason == ReasonInvalid && r.Err != nil:
		return ReasonInvalid + ": " + r.Err.Error()
	case r.Reason == ReasonUnknownGPUs:
		return "nothing is known of the node's GPUs"
	}
	var b strings.Builder
	if r.Claim.Container != "" {
		b.WriteString("container " + strconv.Quote(cut(r.Claim.Container)) + " ")
	}
	b.WriteString("needs " + r.need() + r.where())
	if r.Cards() == 0 {
		b.WriteString(", the node has no GPU")
		return b.String()
	}
	b.WriteString(r.have())
	sep := " ("
	for c := CauseNone + 1; c < causes; c++ {
		if r.Counts[c] > 0 {
			b.WriteString(sep + strconv.Itoa(r.Counts[c]) + " " + c.String())
			sep = ", "
		}
	}
	if sep == ", " {
		b.WriteByte(')')
	}
	return b.String()
}

// need says what the claim asks for.
func (r *Rejection) need() string {
	count := strconv.Itoa(r.Claim.Count)
	switch r.Claim.Kind {
	case KindShare:
		s := r.size()
		if r.Claim.ComputeMilli > 0 {
			s += " and " + strconv.Itoa(int(r.Claim.ComputeMilli)) + "/1000 of the compute"
		}
		if r.Claim.Count == 1 {
			return s + " of 1 GPU"
		}
		return s + " of each of " + count + " GPUs"
	case KindMIG:
		return plural(r.Claim.Count, "MIG instance") + " " + cut(r.Claim.Profile)
	case KindWhole:
	}
	return plural(r.Claim.Count, "whole GPU")
}

func (r *Rejection) size() string {
	if r.Claim.FractionPPB > 0 {
		return strconv.FormatFloat(float64(r.Claim.FractionPPB)/(WholePPB/100), 'f', -1, 64) + "%"
	}
	return formatBytes(r.Claim.VRAMBytes)
}

// where says what the policies ask for.
func (r *Rejection) where() string {
	s := ""
	if r.NUMA == NUMARequire {
		s = " on one NUMA node"
	}
	if r.NIC == NICRequire {
		s += " with a NIC at PIX or PXB"
	}
	return s
}

// have says what there is.
func (r *Rejection) have() string {
	if r.Claim.Kind != KindShare {
		return ", " + isOrAre(r.Have) + " free"
	}
	s := ", " + strconv.Itoa(r.Have) + " have room"
	switch {
	case r.Have == 1:
		s = ", 1 has room"
	case r.Have == 0 && r.Claim.VRAMBytes > r.LargestFree:
		s = ": no card has " + r.size() + " free"
	case r.Have == 0:
		s = ": no card has room"
	}
	if r.Counts[CauseUsed]+r.Counts[CauseTooSmall]+r.Counts[CauseOwn] > 0 {
		s += "; the largest free part is " + formatBytes(r.LargestFree)
	}
	return s
}

func isOrAre(n int) string {
	switch n {
	case 0:
		return "none is"
	case 1:
		return "1 is"
	}
	return strconv.Itoa(n) + " are"
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return strconv.Itoa(n) + " " + noun
}

// formatBytes writes GiB with one decimal, less than 0.1 GiB in MiB or B.
func formatBytes(b int64) string {
	const mib, gib = 1 << 20, 1 << 30
	switch {
	case b >= gib/10:
		return strconv.FormatFloat(float64(b)/gib, 'f', 1, 64) + " GiB"
	case b >= mib:
		return strconv.FormatFloat(float64(b)/mib, 'f', 1, 64) + " MiB"
	}
	return strconv.FormatInt(b, 10) + " B"
}

// cut keeps the first 64 bytes of a name that others chose.
func cut(s string) string {
	if len(s) > 64 {
		return s[:64]
	}
	return s
}

// tally counts the verdict on every card. Cards that would serve but lie outside allowed are on the wrong NUMA node.
func (r *Rejection) tally(v *View, allowed topology.GPUSet, verdict func(i int) Cause) {
	for i := range v.Topology.Len() {
		c := verdict(i)
		if c == CauseNone && !allowed.Has(i) {
			c = CauseWrongNUMA
		}
		r.Counts[c]++
	}
}
