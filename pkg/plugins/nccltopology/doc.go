// Package nccltopology is the NCCLTopology plugin: pods that talk to each other by NCCL stand near each other in the network.
//
//	PreScore           reads the gang's nodes and the room of the domains; skips pods without GPUs, planned members, and
//	                   the cycles of native groups
//	Score              a member that comes by itself: near its gang (type nearness); a single: type points
//	GeneratePlacements offers a native group the domains that can hold it, narrow to wide (candidates.go), and keeps to the
//	                   group's own topology constraint as TopologyPlacementGenerator does (required.go)
//	ScorePlacement     which of the placements that were tried is best (type standing)
//
// The data flow:
//
//	engine.Fabric          -+
//	book.MatesOf           -+-> scoring (CycleState)    -> Score, NormalizeScore
//	ledger, free cards     -+
//
//	engine.Fabric          -+-> stock -> candidates     -> Placements
//	ledger, free cards     -+-> survey (PodGroupCycleState) -> ScorePlacement, NormalizePlacementScore
//
// Gangs that Coscheduling plans have their nodes before Score is asked; this plugin has nothing to say about them but to keep
// the fabric for the planner (engine.StartFabric). The plugin filters nothing, so it waits for no event.
//
// Pods without mates may be batched by kube-scheduler: SignPod says which, type batch how far a batch goes.
//
// # Scores
//
// Every final score is in [0, 100]. Where nothing is known of the fabric, of mates or of links, all nodes get the same. The
// formulas stand above Score and ScorePlacement, each with a worked example.
package nccltopology
