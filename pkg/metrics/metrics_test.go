package metrics

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

// TestNamesAndLabels holds what dashboards and alerts rely on: the names, the labels and the values of the labels.
func TestNamesAndLabels(t *testing.T) {
	Register()
	Register() // a second profile registers again
	for _, result := range []string{ReserveSuccess, ReserveConflict, ReserveError} {
		Reservations.WithLabelValues(result).Inc()
	}
	for _, outcome := range []string{BindSuccess, BindConfirmed, BindUnknown, BindFailed} {
		BindOutcomes.WithLabelValues(outcome).Inc()
	}
	Rollbacks.Inc()
	GangPlans.WithLabelValues(PlanMade).Inc()
	GangPlanSeconds.Observe(0.00015)
	GangRollbacks.Inc()
	ReportsDropped.Inc()
	InventoryProblems.WithLabelValues("annotation").Inc()
	UnreadableRecords.WithLabelValues("missing").Inc()
	const want = `
# HELP gpu_topology_scheduler_bind_outcomes_total [ALPHA] Bindings of GPU pods by outcome.
# TYPE gpu_topology_scheduler_bind_outcomes_total counter
gpu_topology_scheduler_bind_outcomes_total{outcome="confirmed"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="failed"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="success"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="unknown"} 1
# HELP gpu_topology_scheduler_gang_plan_duration_seconds [ALPHA] Time to plan a gang and hold its cards.
# TYPE gpu_topology_scheduler_gang_plan_duration_seconds histogram
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0001"} 0
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0002"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0004"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0008"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0016"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0032"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0064"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0128"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0256"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.0512"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.1024"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.2048"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.4096"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="0.8192"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="1.6384"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_bucket{le="+Inf"} 1
gpu_topology_scheduler_gang_plan_duration_seconds_sum 0.00015
gpu_topology_scheduler_gang_plan_duration_seconds_count 1
# HELP gpu_topology_scheduler_gang_plans_total [ALPHA] Plans of gangs by result.
# TYPE gpu_topology_scheduler_gang_plans_total counter
gpu_topology_scheduler_gang_plans_total{result="made"} 1
# HELP gpu_topology_scheduler_gang_rollbacks_total [ALPHA] Plans of gangs given back before all members were bound.
# TYPE gpu_topology_scheduler_gang_rollbacks_total counter
gpu_topology_scheduler_gang_rollbacks_total 1
# HELP gpu_topology_scheduler_inventory_problems_total [ALPHA] Faults found in descriptions of nodes' GPUs by source.
# TYPE gpu_topology_scheduler_inventory_problems_total counter
gpu_topology_scheduler_inventory_problems_total{source="annotation"} 1
# HELP gpu_topology_scheduler_reports_dropped_total [ALPHA] Events not sent because the report queue was full.
# TYPE gpu_topology_scheduler_reports_dropped_total counter
gpu_topology_scheduler_reports_dropped_total 1
# HELP gpu_topology_scheduler_reservations_total [ALPHA] Reservations of GPU cards by result.
# TYPE gpu_topology_scheduler_reservations_total counter
gpu_topology_scheduler_reservations_total{result="conflict"} 1
gpu_topology_scheduler_reservations_total{result="error"} 1
gpu_topology_scheduler_reservations_total{result="success"} 1
# HELP gpu_topology_scheduler_rollbacks_total [ALPHA] Reservations of GPU cards given back by Unreserve.
# TYPE gpu_topology_scheduler_rollbacks_total counter
gpu_topology_scheduler_rollbacks_total 1
# HELP gpu_topology_scheduler_unreadable_records_total [ALPHA] Bound GPU pods without a readable allocation record by cause.
# TYPE gpu_topology_scheduler_unreadable_records_total counter
gpu_topology_scheduler_unreadable_records_total{cause="missing"} 1
`
	var names []string
	for line := range strings.Lines(want) {
		if name, found := strings.CutPrefix(line, "# TYPE "); found {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), subsystem+"_") {
			ours++
		}
	}
	if ours != len(names) {
		t.Errorf("%d metrics are registered, %d stand here", ours, len(names))
	}
}
