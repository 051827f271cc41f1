package request

import "github.com/gputopology/gpu-topology-scheduler/pkg/allocate"

// peak adds up what a pod holds at the moment when it holds most: either all app containers and sidecars together, or one
// init container beside the sidecars that were declared before it. Containers are added in the order of their start.
type peak struct {
	most, sidecars, mains int
}

func (p *peak) add(phase allocate.Phase, n int) {
	switch phase {
	case allocate.PhaseInit:
		p.most = max(p.most, p.sidecars+n)
	case allocate.PhaseSidecar:
		p.sidecars += n
	case allocate.PhaseMain:
		p.mains += n
	}
}

func (p *peak) total() int { return max(p.most, p.sidecars+p.mains) }

func heldAtPeak(list []container, held func(*container) int) int {
	var p peak
	for i := range list {
		p.add(list[i].phase, held(&list[i]))
	}
	return p.total()
}

// WholeCards returns the number of whole cards that a pod with this request holds: the most that its containers hold at
// one time. The kubelet does not give devices of an init container back before the pod ends, so that many stay held from
// the start. Example: sidecar 4, init container 6 after it, app container 4: max(4+6, 4+4) = 10.
func WholeCards(r *allocate.Request) int {
	return claimedAtPeak(r, func(c *allocate.Claim) bool { return c.Kind == allocate.KindWhole })
}

// Instances returns the number of MIG instances of a profile that a pod with this request holds, counted like WholeCards.
func Instances(r *allocate.Request, profile string) int {
	return claimedAtPeak(r, func(c *allocate.Claim) bool { return c.Kind == allocate.KindMIG && c.Profile == profile })
}

// claimedAtPeak counts the claims of one sort, of which a container has at most one.
func claimedAtPeak(r *allocate.Request, counts func(*allocate.Claim) bool) int {
	var p peak
	for i := range r.Claims {
		if c := &r.Claims[i]; counts(c) {
			p.add(c.Phase, c.Count)
		}
	}
	return p.total()
}
