package metrics

import (
	"sync/atomic"

	"k8s.io/component-base/metrics"
)

// States of cards and MIG instances, values of the label state of the gauges of State. Each card and instance is in one.
const (
	// CardHeld has a holder, of a part or of the whole, or is set aside for a pod that does not say which cards it uses.
	CardHeld = "held"
	// CardFree can be given to a pod.
	CardFree = "free"
	// CardClosed is kept from new pods for another reason than the next two.
	CardClosed = "closed"
	// CardQuarantined is on a node whose holdings contradict each other, whoever holds it.
	CardQuarantined = "quarantined"
	// CardUnusable is sick or faulty, and nobody holds it.
	CardUnusable = "unusable"
)

// State is what the gauges show. It is read when metrics are gathered.
type State struct {
	Cards     []CardGauge
	Instances []InstanceGauge
	// Gangs counts PodGroups by phase.
	Gangs map[string]int
	// Parked counts the pods of no gang that wait for cards and are not tried before a node has some for them.
	Parked int
}

// CardGauge is a number of cards that have these labels.
type CardGauge struct {
	State, Product, Pool string
	Count                int
}

// InstanceGauge is a number of MIG instances that have these labels.
type InstanceGauge struct {
	State, Profile string
	Count          int
}

var (
	cardsDesc  = desc("cards", "GPU cards by state, product and node pool. A card in MIG mode is one card.", "state", "product", "pool")
	migDesc    = desc("mig_instances", "MIG instances by state and profile.", "state", "profile")
	parkedDesc = desc("parked_pods", "Pods that wait for GPU cards and are not tried before a node has some for them.")
	gangsDesc  = desc("gangs", "PodGroups by phase.", "phase")
)

func desc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(metrics.BuildFQName("", subsystem, name), help, labels, nil, metrics.ALPHA, "")
}

// current is what the gauges are read from.
var current atomic.Pointer[func() State]

// Show has the gauges of State read from a function, until the next call of Show; nil for none. The function must be cheap and
// must not block: it is called each time that metrics are gathered.
func Show(read func() State) { current.Store(&read) }

// gauges collects State.
type gauges struct{ metrics.BaseStableCollector }

// DescribeWithStability implements StableCollector.
func (*gauges) DescribeWithStability(out chan<- *metrics.Desc) {
	out <- cardsDesc
	out <- migDesc
	out <- gangsDesc
	out <- parkedDesc
}

// CollectWithStability implements StableCollector.
func (*gauges) CollectWithStability(out chan<- metrics.Metric) {
	read := current.Load()
	if read == nil || *read == nil {
		return
	}
	s := (*read)()
	for _, c := range s.Cards {
		out <- metrics.NewLazyConstMetric(cardsDesc, metrics.GaugeValue, float64(c.Count), c.State, c.Product, c.Pool)
	}
	for _, i := range s.Instances {
		out <- metrics.NewLazyConstMetric(migDesc, metrics.GaugeValue, float64(i.Count), i.State, i.Profile)
	}
	for phase, n := range s.Gangs {
		out <- metrics.NewLazyConstMetric(gangsDesc, metrics.GaugeValue, float64(n), phase)
	}
	out <- metrics.NewLazyConstMetric(parkedDesc, metrics.GaugeValue, float64(s.Parked))
}
