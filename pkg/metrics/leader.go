package metrics

import (
	"sync/atomic"

	"k8s.io/component-base/metrics/legacyregistry"
)

// leaderGauge is the metric by which client-go's leader election says whether this process leads; it appears with the
// first election (k8s.io/component-base/metrics/prometheus/clientgo/leaderelection).
const leaderGauge = "leader_election_master_status"

// elects is true in a process that elects a leader.
var elects atomic.Bool

// Elects says that this process elects a leader, so that it does not lead before the election says so.
func Elects() { elects.Store(true) }

// Leads reports whether this process leads, or elects no leader. A plugin is not told otherwise before its first
// scheduling cycle. It gathers all metrics, which takes milliseconds.
func Leads() (bool, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return false, err
	}
	for _, family := range families {
		if family.GetName() != leaderGauge {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetGauge().GetValue() == 1 {
				return true, nil
			}
		}
		return false, nil
	}
	return !elects.Load(), nil
}
