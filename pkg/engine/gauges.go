package engine

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// maxProducts, maxPools and maxProfiles bound the values of labels: those with the most cards keep their name, the rest
	// are otherLabel together.
	maxProducts = 32
	maxPools    = 64
	maxProfiles = 32
	otherLabel  = "other"
)

// cardStates are the values of the label state, in the order of a cardRow and an instanceRow.
var cardStates = [...]string{metrics.CardHeld, metrics.CardFree, metrics.CardClosed, metrics.CardQuarantined, metrics.CardUnusable}

const (
	atHeld = iota
	atFree
	atClosed
	atQuarantined
	atUnusable
)

// row counts by state.
type row [len(cardStates)]int

func (r *row) sum() (n int) {
	for _, c := range r {
		n += c
	}
	return n
}

// series is what one cards series has beside its state.
type series struct{ product, pool string }

// gauges reads what metrics show. It takes no lock of the ledger, and the book's for one pass over the groups.
func (e *Engine) gauges() metrics.State {
	cards, instances := map[series]*row{}, map[string]*row{}
	for a := range e.ledger.States() {
		if a.Topology == nil || a.Topology.Len() == 0 {
			continue
		}
		s := setsOf(a)
		e.addCards(cards, a, &s)
		if mig := a.Topology.MIGCards(); !mig.Empty() {
			addInstances(instances, a, mig)
		}
	}
	return metrics.State{Cards: cardGauges(cards), Instances: instanceGauges(instances), Gangs: e.book.Phases(), Parked: int(e.parking.count.Load())}
}

// addCards counts the cards of a node.
func (e *Engine) addCards(cards map[series]*row, a *ledger.NodeGPUAllocation, s *cardSets) {
	pool := e.pools.of(a.Name)
	for _, m := range a.Topology.Models() {
		r, same := rowOf(cards, series{m.Product, pool}), m.Cards
		if a.Quarantined {
			r[atQuarantined] += same.Len()
			continue
		}
		r[atHeld] += (same & (s.held | s.foreign)).Len()
		r[atFree] += (same & s.free).Len()
		r[atClosed] += (same & s.closed).Len()
		r[atUnusable] += (same & s.unusable).Len()
	}
}

// addInstances counts the MIG instances of a node. One whose place on its card is not known counts as held while anything of
// the card is.
func addInstances(instances map[string]*row, a *ledger.NodeGPUAllocation, mig topology.GPUSet) {
	for i := range mig.All() {
		used := a.Use[i].SliceMask
		for _, m := range a.Topology.Card(i).MIG {
			at := atFree
			switch mask := m.SliceMask(); {
			case a.Quarantined:
				at = atQuarantined
			case mask&used != 0, mask == 0 && used != 0:
				at = atHeld
			case !a.Topology.Usable().Has(i):
				at = atUnusable
			case a.Closed.Has(i):
				at = atClosed
			}
			rowOf(instances, m.Profile)[at]++
		}
	}
}

func rowOf[K comparable](rows map[K]*row, key K) *row {
	r := rows[key]
	if r == nil {
		r = &row{}
		rows[key] = r
	}
	return r
}

// cardGauges lists the rows with at most maxProducts products and maxPools pools.
func cardGauges(cards map[series]*row) []metrics.CardGauge {
	products, pools := map[string]int{}, map[string]int{}
	for key, r := range cards {
		products[key.product] += r.sum()
		pools[key.pool] += r.sum()
	}
	productName, poolName := bounded(products, maxProducts), bounded(pools, maxPools)
	short := map[series]*row{}
	for key, r := range cards {
		sum := rowOf(short, series{productName(key.product), poolName(key.pool)})
		for i := range r {
			sum[i] += r[i]
		}
	}
	out := make([]metrics.CardGauge, 0, len(short)*len(cardStates))
	for key, r := range short {
		for i, state := range cardStates {
			out = append(out, metrics.CardGauge{State: state, Product: key.product, Pool: key.pool, Count: r[i]})
		}
	}
	return out
}

func instanceGauges(instances map[string]*row) []metrics.InstanceGauge {
	profiles := map[string]int{}
	for profile, r := range instances {
		profiles[profile] += r.sum()
	}
	name, short := bounded(profiles, maxProfiles), map[string]*row{}
	for profile, r := range instances {
		sum := rowOf(short, name(profile))
		for i := range r {
			sum[i] += r[i]
		}
	}
	out := make([]metrics.InstanceGauge, 0, len(short)*len(cardStates))
	for profile, r := range short {
		for i, state := range cardStates {
			out = append(out, metrics.InstanceGauge{State: state, Profile: profile, Count: r[i]})
		}
	}
	return out
}

// bounded returns what a value is called where at most so many may keep their name: those with the highest counts, in
// ascending order of name among equals. The others are otherLabel.
func bounded(counts map[string]int, most int) func(string) string {
	if len(counts) <= most {
		return func(value string) string { return value }
	}
	values := slices.Collect(maps.Keys(counts))
	slices.SortFunc(values, func(x, y string) int { return cmp.Or(cmp.Compare(counts[y], counts[x]), cmp.Compare(x, y)) })
	kept := map[string]bool{}
	for _, value := range values[:most] {
		kept[value] = true
	}
	return func(value string) string {
		if kept[value] {
			return value
		}
		return otherLabel
	}
}
