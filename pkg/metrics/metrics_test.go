package metrics

import (
	"strings"
	"testing"

	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/component-base/metrics/testutil"
)

// exposition is every metric as a scrape shows it.
const exposition = `
# HELP gpu_topology_scheduler_admission_failures_total [ALPHA] GPU pods that a kubelet failed at admission.
# TYPE gpu_topology_scheduler_admission_failures_total counter
gpu_topology_scheduler_admission_failures_total 1
# HELP gpu_topology_scheduler_avoided_nodes_total [ALPHA] Times that a node was avoided since its kubelet failed GPU pods at admission.
# TYPE gpu_topology_scheduler_avoided_nodes_total counter
gpu_topology_scheduler_avoided_nodes_total 1
# HELP gpu_topology_scheduler_bind_backpressure_seconds_total [ALPHA] Time in which scheduling waited for the Bindings of gangs to reach the API server.
# TYPE gpu_topology_scheduler_bind_backpressure_seconds_total counter
gpu_topology_scheduler_bind_backpressure_seconds_total 0.5
# HELP gpu_topology_scheduler_bind_outcomes_total [ALPHA] Bindings of GPU pods by outcome.
# TYPE gpu_topology_scheduler_bind_outcomes_total counter
gpu_topology_scheduler_bind_outcomes_total{outcome="confirmed"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="conflict"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="failed"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="success"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="unknown"} 1
# HELP gpu_topology_scheduler_cards [ALPHA] GPU cards by state, product and node pool. A card in MIG mode is one card.
# TYPE gpu_topology_scheduler_cards gauge
gpu_topology_scheduler_cards{pool="pool-a",product="NVIDIA H100 80GB HBM3",state="free"} 0
gpu_topology_scheduler_cards{pool="pool-a",product="NVIDIA H100 80GB HBM3",state="held"} 5
# HELP gpu_topology_scheduler_drift_repairs_total [ALPHA] Differences between the GPU ledger and the API repaired by sweeps, by kind.
# TYPE gpu_topology_scheduler_drift_repairs_total counter
gpu_topology_scheduler_drift_repairs_total{kind="orphan"} 1
# HELP gpu_topology_scheduler_forced_deletes_total [ALPHA] Running GPU pods deleted without termination, whose cards were held back.
# TYPE gpu_topology_scheduler_forced_deletes_total counter
gpu_topology_scheduler_forced_deletes_total 1
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
# HELP gpu_topology_scheduler_gangs [ALPHA] PodGroups by phase.
# TYPE gpu_topology_scheduler_gangs gauge
gpu_topology_scheduler_gangs{phase="forming"} 2
gpu_topology_scheduler_gangs{phase="running"} 1
# HELP gpu_topology_scheduler_mig_instances [ALPHA] MIG instances by state and profile.
# TYPE gpu_topology_scheduler_mig_instances gauge
gpu_topology_scheduler_mig_instances{profile="1g.10gb",state="free"} 14
# HELP gpu_topology_scheduler_inventory_problems_total [ALPHA] Faults found in descriptions of nodes' GPUs by source.
# TYPE gpu_topology_scheduler_inventory_problems_total counter
gpu_topology_scheduler_inventory_problems_total{source="annotation"} 1
# HELP gpu_topology_scheduler_parked_pods [ALPHA] Pods that wait for GPU cards and are not tried before a node has some for them.
# TYPE gpu_topology_scheduler_parked_pods gauge
gpu_topology_scheduler_parked_pods 3
# HELP gpu_topology_scheduler_parked_pods_woken_total [ALPHA] Pods that waited for GPU cards and were tried again since a node had some for them, or they may preempt.
# TYPE gpu_topology_scheduler_parked_pods_woken_total counter
gpu_topology_scheduler_parked_pods_woken_total 1
# HELP gpu_topology_scheduler_reports_dropped_total [ALPHA] Events not sent because the report queue was full.
# TYPE gpu_topology_scheduler_reports_dropped_total counter
gpu_topology_scheduler_reports_dropped_total 1
# HELP gpu_topology_scheduler_reservations_total [ALPHA] Reservations of GPU cards by result.
# TYPE gpu_topology_scheduler_reservations_total counter
gpu_topology_scheduler_reservations_total{result="conflict"} 1
gpu_topology_scheduler_reservations_total{result="error"} 1
gpu_topology_scheduler_reservations_total{result="success"} 1
# HELP gpu_topology_scheduler_rollbacks_total [ALPHA] Reservations of GPU cards given back before the pod was bound, by cause and by how far it had come.
# TYPE gpu_topology_scheduler_rollbacks_total counter
gpu_topology_scheduler_rollbacks_total{cause="gang",stage="waiting"} 1
# HELP gpu_topology_scheduler_shortlists_total [ALPHA] Pods of no gang that were looked at on the best nodes alone, by result.
# TYPE gpu_topology_scheduler_shortlists_total counter
gpu_topology_scheduler_shortlists_total{result="made"} 1
# HELP gpu_topology_scheduler_spans_dropped_total [ALPHA] Spans that were not sent, by reason.
# TYPE gpu_topology_scheduler_spans_dropped_total counter
gpu_topology_scheduler_spans_dropped_total{reason="queue_full"} 1
# HELP gpu_topology_scheduler_sweep_duration_seconds [ALPHA] Time to compare the GPU ledger with the API and repair it.
# TYPE gpu_topology_scheduler_sweep_duration_seconds histogram
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.001"} 0
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.002"} 0
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.004"} 0
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.008"} 0
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.016"} 0
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.032"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.064"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.128"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.256"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="0.512"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="1.024"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="2.048"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="4.096"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="8.192"} 1
gpu_topology_scheduler_sweep_duration_seconds_bucket{le="+Inf"} 1
gpu_topology_scheduler_sweep_duration_seconds_sum 0.02
gpu_topology_scheduler_sweep_duration_seconds_count 1
# HELP gpu_topology_scheduler_unreadable_records_total [ALPHA] Bound GPU pods without a readable allocation record by cause.
# TYPE gpu_topology_scheduler_unreadable_records_total counter
gpu_topology_scheduler_unreadable_records_total{cause="missing"} 1
`

// TestNamesAndLabels holds what dashboards and alerts rely on: the names, the labels and the values of the labels.
func TestNamesAndLabels(t *testing.T) {
	Register()
	Register() // a second profile registers again
	for _, result := range []string{ReserveSuccess, ReserveConflict, ReserveError} {
		Reservations.WithLabelValues(result).Inc()
	}
	for _, outcome := range []string{BindSuccess, BindConfirmed, BindConflict, BindUnknown, BindFailed} {
		BindOutcomes.WithLabelValues(outcome).Inc()
	}
	Rollbacks.WithLabelValues(RollbackGang, StageWaiting).Inc()
	SpansDropped.WithLabelValues(SpanQueueFull).Inc()
	DriftRepairs.WithLabelValues("orphan").Inc()
	SweepSeconds.Observe(0.02)
	ForcedDeletes.Inc()
	AdmissionFailures.Inc()
	AvoidedNodes.Inc()
	Show(func() State {
		return State{
			Cards:     []CardGauge{{CardHeld, "NVIDIA H100 80GB HBM3", "pool-a", 5}, {CardFree, "NVIDIA H100 80GB HBM3", "pool-a", 0}},
			Instances: []InstanceGauge{{CardFree, "1g.10gb", 14}},
			Gangs:     map[string]int{"forming": 2, "running": 1},
			Parked:    3,
		}
	})
	defer Show(nil)
	GangPlans.WithLabelValues(PlanMade).Inc()
	GangPlanSeconds.Observe(0.00015)
	Shortlists.WithLabelValues(ShortlistMade).Inc()
	GangRollbacks.Inc()
	ReportsDropped.Inc()
	PacedSeconds.Add(0.5)
	PodsWoken.Inc()
	InventoryProblems.WithLabelValues("annotation").Inc()
	UnreadableRecords.WithLabelValues("missing").Inc()
	var names []string
	for line := range strings.Lines(exposition) {
		if name, found := strings.CutPrefix(line, "# TYPE "); found {
			names = append(names, strings.Fields(name)[0])
		}
	}
	if err := testutil.GatherAndCompare(legacyregistry.DefaultGatherer, strings.NewReader(exposition), names...); err != nil {
		t.Error(err)
	}
	problems, err := testutil.NewPromLinter(strings.NewReader(exposition)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
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
