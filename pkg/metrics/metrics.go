package metrics

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const subsystem = "gpu_topology_scheduler"

// Outcomes of a bind, values of the label outcome of BindOutcomes.
const (
	// BindSuccess is a Binding that the API server acknowledged.
	BindSuccess = "success"
	// BindConfirmed is a Binding whose answer was lost and that the pod, read back, shows to be committed.
	BindConfirmed = "confirmed"
	// BindUnknown is a Binding whose outcome could not be learned yet; its cards stay held. It is counted once more when its
	// outcome is known: as BindConfirmed or BindFailed.
	BindUnknown = "unknown"
	// BindConflict is a Binding that the API server refused since the pod is bound already, or is another one by now.
	BindConflict = "conflict"
	// BindFailed is a Binding that was not committed for another reason.
	BindFailed = "failed"
)

// Results of a reservation, values of the label result of Reservations.
const (
	// ReserveSuccess took the cards.
	ReserveSuccess = "success"
	// ReserveConflict found the cards taken since Filter.
	ReserveConflict = "conflict"
	// ReserveError met broken input or a broken invariant.
	ReserveError = "error"
)

// Causes of a rollback, values of the label cause of Rollbacks; the first that holds.
const (
	// RollbackTrial is the end of a trial: placements of a native PodGroup are tried one after the other.
	RollbackTrial = "trial"
	// RollbackDeleted is the end of the pod.
	RollbackDeleted = "deleted"
	// RollbackBind is a Binding that was not committed.
	RollbackBind = "bind"
	// RollbackGang is a gang that gave its plan up.
	RollbackGang = "gang"
	// RollbackPermit is a wait at Permit that ended otherwise: its time was over, or another plugin rejected the pod.
	RollbackPermit = "permit"
	// RollbackPreBind is a failure between Permit and Bind: of another plugin's Permit or PreBind.
	RollbackPreBind = "prebind"
	// RollbackReserve is a failure before Permit: of another plugin's Reserve or Permit.
	RollbackReserve = "reserve"
	// RollbackOther is what cannot be told: no plugin of ours stands at Permit, or the cycle state is gone.
	RollbackOther = "other"
)

// How far a pod had come when it was rolled back, values of the label stage of Rollbacks.
const (
	// StagePlanned was planned with its gang, and had not been through its own cycle.
	StagePlanned = "planned"
	// StageReserved had its cards, and had not been at Permit.
	StageReserved = "reserved"
	// StageWaiting waited at Permit.
	StageWaiting = "waiting"
	// StagePermitted was let go at Permit.
	StagePermitted = "permitted"
	// StageBinding had its Binding sent.
	StageBinding = "binding"
	// StageUnknown is a pod whose cycle state is gone.
	StageUnknown = "unknown"
)

// Reasons why spans were dropped, values of the label reason of SpansDropped.
const (
	// SpanQueueFull found the queue full.
	SpanQueueFull = "queue_full"
	// SpanNotSent could not be sent.
	SpanNotSent = "not_sent"
)

// LeftOver is the kind of a reservation that an earlier scheduling cycle of a pod left behind and its next one found, a value
// of the label kind of DriftRepairs; the others are those of package reconcile.
const LeftOver = "left-over"

// Outcomes of looking at few nodes for a pod of no gang, values of the label result of Shortlists.
const (
	// ShortlistMade named the nodes to look at.
	ShortlistMade = "made"
	// ShortlistFailed is one of which no node served: the pod is tried again on all nodes.
	ShortlistFailed = "failed"
)

// Results of planning a gang, values of the label result of GangPlans.
const (
	// PlanMade found places for all members and took their cards.
	PlanMade = "made"
	// PlanRefused found that they do not fit.
	PlanRefused = "refused"
	// PlanConflict found the cards taken, or the gang changed, since the nodes were read.
	PlanConflict = "conflict"
	// PlanError met broken input or a broken invariant.
	PlanError = "error"
)

var (
	// Reservations counts reservations of cards by result.
	Reservations = counterVec("reservations_total", "Reservations of GPU cards by result.", "result")
	// Rollbacks counts reservations of pods that were given back before they were bound.
	Rollbacks = counterVec("rollbacks_total", "Reservations of GPU cards given back before the pod was bound, by cause and by how far it had come.", "cause", "stage")
	// BindOutcomes counts Bindings of GPU pods by outcome.
	BindOutcomes = counterVec("bind_outcomes_total", "Bindings of GPU pods by outcome.", "outcome")
	// PacedSeconds is the time in which no pod was decided since Bindings of gangs queued up.
	PacedSeconds = counter("bind_backpressure_seconds_total", "Time in which scheduling waited for the Bindings of gangs to reach the API server.")
	// PodsWoken counts parked pods that were tried again since a node had cards for them, or they may preempt.
	PodsWoken = counter("parked_pods_woken_total", "Pods that waited for GPU cards and were tried again since a node had some for them, or they may preempt.")
	// InventoryProblems counts node descriptions that could not be used, by their source.
	InventoryProblems = counterVec("inventory_problems_total", "Faults found in descriptions of nodes' GPUs by source.", "source")
	// UnreadableRecords counts bound pods that are charged by their number of cards since their record is missing or damaged, by cause.
	UnreadableRecords = counterVec("unreadable_records_total", "Bound GPU pods without a readable allocation record by cause.", "cause")
	// ForcedDeletes counts bound GPU pods that were deleted while they ran, so that their cards cool down.
	ForcedDeletes = counter("forced_deletes_total", "Running GPU pods deleted without termination, whose cards were held back.")
	// AdmissionFailures counts GPU pods that a kubelet refused at admission.
	AdmissionFailures = counter("admission_failures_total", "GPU pods that a kubelet failed at admission.")
	// AvoidedNodes counts the times that a node was avoided for it.
	AvoidedNodes = counter("avoided_nodes_total", "Times that a node was avoided since its kubelet failed GPU pods at admission.")
	// GangRollbacks counts plans of gangs that were given back in whole or in part.
	GangRollbacks = counter("gang_rollbacks_total", "Plans of gangs given back before all members were bound.")
	// GangPlans counts plans of gangs by result.
	GangPlans = counterVec("gang_plans_total", "Plans of gangs by result.", "result")
	// GangPlanSeconds is the time that a plan takes, from reading the nodes to holding the cards.
	GangPlanSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "gang_plan_duration_seconds", Help: "Time to plan a gang and hold its cards.",
		Buckets: metrics.ExponentialBuckets(0.0001, 2, 15), StabilityLevel: metrics.ALPHA,
	})
	// Shortlists counts pods of no gang for which the best nodes were named, and those for which none of these served.
	Shortlists = counterVec("shortlists_total", "Pods of no gang that were looked at on the best nodes alone, by result.", "result")
	// DriftRepairs counts differences between ledger and API that a sweep found and repaired, by kind (package reconcile).
	DriftRepairs = counterVec("drift_repairs_total", "Differences between the GPU ledger and the API repaired by sweeps, by kind.", "kind")
	// SweepSeconds is the time that a sweep takes, from reading the nodes to the last repair.
	SweepSeconds = metrics.NewHistogram(&metrics.HistogramOpts{
		Subsystem: subsystem, Name: "sweep_duration_seconds", Help: "Time to compare the GPU ledger with the API and repair it.",
		Buckets: metrics.ExponentialBuckets(0.001, 2, 14), StabilityLevel: metrics.ALPHA,
	})
	// SpansDropped counts spans that did not reach a collector, by reason.
	SpansDropped = counterVec("spans_dropped_total", "Spans that were not sent, by reason.", "reason")
	// ReportsDropped counts events that were not sent since the queue was full.
	ReportsDropped = counter("reports_dropped_total", "Events not sent because the report queue was full.")
)

func opts(name, help string) *metrics.CounterOpts {
	return &metrics.CounterOpts{Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA}
}

func counter(name, help string) *metrics.Counter { return metrics.NewCounter(opts(name, help)) }

func counterVec(name, help string, labels ...string) *metrics.CounterVec {
	return metrics.NewCounterVec(opts(name, help), labels)
}

var register sync.Once

// Register adds the metrics to the process's registry. Calls after the first do nothing.
func Register() {
	register.Do(func() {
		legacyregistry.MustRegister(Reservations, Rollbacks, BindOutcomes, PacedSeconds, PodsWoken, InventoryProblems, UnreadableRecords, ReportsDropped,
			ForcedDeletes, AdmissionFailures, AvoidedNodes, GangRollbacks, GangPlans, GangPlanSeconds, Shortlists, DriftRepairs, SweepSeconds,
			SpansDropped)
		legacyregistry.CustomMustRegister(&gauges{})
	})
}
