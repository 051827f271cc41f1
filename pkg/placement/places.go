package placement

import (
	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// places counts members on nodes and remembers the answers that take long: thousands of nodes share a handful of states.
type places struct {
	chooser *allocate.Chooser
	scratch scratch
	key     []byte
	claim   [1]allocate.Claim
	// trials are the answers for each request asked by trial, rings those about the bottleneck.
	trials map[*allocate.Request]map[string]trialAnswer
	rings  map[*allocate.Request]map[ringKey]topology.Bandwidth
}

// trialAnswer is the number of members found, looking for at most limit.
type trialAnswer struct{ count, limit int }

// ringKey is what the bottleneck of whole cards depends on.
type ringKey struct {
	shape [32]byte
	free  topology.GPUSet
	count int
}

// reset forgets all answers.
func (p *places) reset() {
	p.trials = map[*allocate.Request]map[string]trialAnswer{}
	p.rings = map[*allocate.Request]map[ringKey]topology.Bandwidth{}
}

// onCards returns how many members the cards hold, at most limit, which is 1 or more.
func (p *places) onCards(a *ask, v *allocate.View, limit int) int {
	switch a.way {
	case noCards:
		return limit
	case plainCards:
		return min(limit, a.plain(v))
	case oneShare:
		return a.shares(v, limit)
	case byTrial:
	}
	if v == nil || v.Topology == nil {
		return 0
	}
	p.key = trialKey(p.key[:0], v, wholeOnly(a.request))
	known := p.trials[a.request]
	if known == nil {
		known = map[string]trialAnswer{}
		p.trials[a.request] = known
	}
	got, ok := known[string(p.key)]
	if !ok || got.count == got.limit && got.limit < limit {
		got.limit = limit
		got.count, _ = p.scratch.trial(p.chooser, v, a.request, limit)
		known[string(p.key)] = got
	}
	return min(limit, got.count)
}

// ring returns the bottleneck of the best ring over all cards that so many members get on the node; 0 where the ask is
// not for whole cards alone, or one card is no ring.
func (p *places) ring(a *ask, v *allocate.View, count int) topology.Bandwidth {
	if a.way == noCards || v == nil || v.Topology == nil || count < 1 || !wholeOnly(a.request) {
		return 0
	}
	known := p.rings[a.request]
	if known == nil {
		known = map[ringKey]topology.Bandwidth{}
		p.rings[a.request] = known
	}
	key := ringKey{shape: v.Topology.Shape().Fingerprint(), free: v.Free, count: count}
	ring, ok := known[key]
	if !ok {
		var set topology.GPUSet
		if a.way == plainCards {
			set, _ = p.bestOf(v, count*a.cards)
		} else {
			_, set = p.scratch.trial(p.chooser, v, a.request, count)
		}
		ring = p.chooser.QualityOf(v, set).Bottleneck
		known[key] = ring
	}
	return ring
}

// bestOf returns the best set of so many free cards, without regard to any policy but the defaults.
func (p *places) bestOf(v *allocate.View, cards int) (topology.GPUSet, bool) {
	p.claim[0] = allocate.Claim{Kind: allocate.KindWhole, Count: cards}
	set, _, rej, err := p.chooser.Assess(v, &allocate.Request{Claims: p.claim[:]})
	return set, rej == nil && err == nil
}
