package allocate

import (
	"fmt"
	"math"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// InputError is a request or a view that cannot be: the field at fault, its value (its first 64 characters are
// shown) and what is wrong with it.
type InputError struct {
	Field, Value, Reason string
}

// Error names the field, the value and the reason.
func (e *InputError) Error() string {
	return fmt.Sprintf("%s: %.64q: %s", e.Field, e.Value, e.Reason)
}

// WholePPB is a FractionPPB of one: all of a card's memory.
const WholePPB = 1_000_000_000

// Validate returns an *InputError where the request cannot be: a count below 1, a share without or with two
// sizes, a fraction or a compute above one card, an unknown kind, phase or policy, a plain init container or
// sidecar after an app container, a container name that is missing or whose claims do not stand together.
// A request that no node could ever meet is a valid one.
func (r *Request) Validate() error {
	if err := r.check(); err != nil {
		return err
	}
	for i := range r.Claims {
		if r.Claims[i].Container == "" && len(r.Claims) > 1 {
			return claimError(i, "container", "", "a pod with several claims names the container of each")
		}
		for j := range max(i-1, 0) {
			if r.Claims[j].Container == r.Claims[i].Container && r.Claims[i-1].Container != r.Claims[i].Container {
				return claimError(i, "container", r.Claims[i].Container, "the claims of one container stand together")
			}
		}
	}
	return nil
}

// check is the part of Validate on which the absence of wrong answers depends. It is done for every node.
func (r *Request) check() error {
	if r.NUMA > NUMARequire {
		return &InputError{Field: "numa", Value: strconv.Itoa(int(r.NUMA)), Reason: "unknown policy"}
	}
	if r.NIC > NICRequire {
		return &InputError{Field: "nic", Value: strconv.Itoa(int(r.NIC)), Reason: "unknown policy"}
	}
	for i := range r.Claims {
		c := &r.Claims[i]
		if c.Count < 1 {
			return claimError(i, "count", strconv.Itoa(c.Count), "must be 1 or more")
		}
		if c.Phase > PhaseSidecar {
			return claimError(i, "phase", strconv.Itoa(int(c.Phase)), "unknown phase")
		}
		if i > 0 {
			before := r.Claims[i-1].Phase
			if before == PhaseMain && c.Phase != PhaseMain {
				return claimError(i, "phase", strconv.Itoa(int(c.Phase)), "init containers and sidecars stand before app containers")
			}
			if before != c.Phase && r.sameContainer(i-1, i) {
				return claimError(i, "phase", strconv.Itoa(int(c.Phase)), "one container has one phase")
			}
		}
		if err := c.check(i); err != nil {
			return err
		}
	}
	return nil
}

func (c *Claim) check(i int) error {
	if c.VRAMBytes < 0 {
		return claimError(i, "vramBytes", strconv.FormatInt(c.VRAMBytes, 10), "must not be negative")
	}
	if c.FractionPPB < 0 || c.FractionPPB > WholePPB {
		return claimError(i, "fractionPPB", strconv.FormatInt(c.FractionPPB, 10), "must be 1 to 1e9")
	}
	if c.ComputeMilli < 0 || c.ComputeMilli > MilliPerCard {
		return claimError(i, "computeMilli", strconv.Itoa(int(c.ComputeMilli)), "must be 0 to 1000")
	}
	sized := c.VRAMBytes > 0 || c.FractionPPB > 0
	switch c.Kind {
	case KindShare:
		if (c.VRAMBytes > 0) == (c.FractionPPB > 0) {
			return claimError(i, "vramBytes", strconv.FormatInt(c.VRAMBytes, 10), "a share has either bytes or a fraction")
		}
		if c.Profile != "" {
			return claimError(i, "profile", c.Profile, "a share has no MIG profile")
		}
	case KindWhole:
		if sized || c.Profile != "" || c.ComputeMilli%MilliPerCard != 0 {
			return claimError(i, "kind", "whole", "whole cards have no size, fraction, part of the compute or MIG profile")
		}
	case KindMIG:
		if c.Profile == "" {
			return claimError(i, "profile", "", "a MIG claim names its profile")
		}
		if sized || c.ComputeMilli != 0 {
			return claimError(i, "kind", "mig", "a MIG instance's size is its profile")
		}
	default:
		return claimError(i, "kind", strconv.Itoa(int(c.Kind)), "unknown kind")
	}
	return nil
}

func claimError(i int, field, value, reason string) error {
	return &InputError{Field: "claims[" + strconv.Itoa(i) + "]." + field, Value: value, Reason: reason}
}

// sameContainer reports whether neighbouring claims i and j are one container's.
func (r *Request) sameContainer(i, j int) bool {
	return r.Claims[i].Container == r.Claims[j].Container
}

// containers counts the containers that claim.
func (r *Request) containers() int {
	n := 0
	for i := range r.Claims {
		if i == 0 || !r.sameContainer(i-1, i) {
			n++
		}
	}
	return n
}

// wholeCards returns how many whole cards the kubelet would hold for the pod at its peak, and whether the pod
// claims nothing else. A plain init container runs beside the sidecars that stand before it; the app containers
// run beside all sidecars; what one phase held the next may use, and nothing is handed back before the pod ends.
// The sum of absurd counts stops at the largest int.
func (r *Request) wholeCards() (peak int, only bool) {
	only = true
	sidecars, mains, init := 0, 0, 0
	for i := range r.Claims {
		c := &r.Claims[i]
		if i > 0 && !r.sameContainer(i-1, i) {
			init = 0
		}
		if c.Kind != KindWhole {
			only = false
			continue
		}
		switch c.Phase {
		case PhaseInit:
			init = addCounts(init, c.Count)
			peak = max(peak, addCounts(sidecars, init))
		case PhaseSidecar:
			sidecars = addCounts(sidecars, c.Count)
		case PhaseMain:
			mains = addCounts(mains, c.Count)
		}
	}
	return max(peak, addCounts(sidecars, mains)), only
}

// addCounts adds two counts that are not negative; it stops at the largest int.
func addCounts(a, b int) int {
	if a > math.MaxInt-b {
		return math.MaxInt
	}
	return a + b
}

// Check returns an *InputError where the view contradicts itself: not one entry of use a card, a negative use, or
// a set Free that does not follow from the rest. A view without topology is consistent: it offers nothing.
func (v *View) Check() error {
	if v.Topology == nil {
		return nil
	}
	if len(v.Use) != v.Topology.Len() {
		return &InputError{Field: "use", Value: strconv.Itoa(len(v.Use)), Reason: "the node has " + strconv.Itoa(v.Topology.Len()) + " cards"}
	}
	for i := range v.Use {
		if u := &v.Use[i]; u.VRAMBytes < 0 || u.ComputeMilli < 0 || u.Holders < 0 {
			return &InputError{Field: "use[" + strconv.Itoa(i) + "]", Value: fmt.Sprint(*u), Reason: "must not be negative"}
		}
	}
	if want := FreeCards(v.Topology, v.Use, v.Closed); v.Free != want {
		return &InputError{Field: "free", Value: v.Free.String(), Reason: "the free cards are " + want.String()}
	}
	return nil
}

// FreeCards returns the cards that could be given out whole: usable, not in MIG mode, not closed, and without a
// holder. It is the one definition of View.Free. use has one entry a card.
func FreeCards(t *topology.Node, use []CardUse, closed topology.GPUSet) topology.GPUSet {
	free := t.Usable() &^ t.MIGCards() &^ closed
	for i := range use {
		if use[i].Holders != 0 {
			free = free.Without(i)
		}
	}
	return free
}
