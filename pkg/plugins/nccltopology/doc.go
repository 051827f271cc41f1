// Package nccltopology is the NCCLTopology plugin: pods that talk to each other by NCCL stand near each other in the network.
//
//	PreFilter          has a pod of no gang looked at on the best nodes of the cluster alone (shortlist.go); which pods are not is said
//	                   above wide
//	PostFilter         has it looked at on all nodes where none of these serves
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
//	ledger, what changed   -+-> shortlists, by request -> those that serve (type asker, passes) -> PreFilterResult
//	engine.Occupancy       -+
//
//	engine.Fabric          -+-> stock -> candidates     -> Placements
//	ledger, free cards     -+-> survey (PodGroupCycleState) -> ScorePlacement, NormalizePlacementScore
//
// Gangs that Coscheduling plans have their nodes before Score is asked; this plugin has nothing to say about them but to keep
// the fabric for the planner (engine.StartFabric). A pod that PreFilter has left on nodes which do not serve is sent back by PostFilter,
// so the plugin waits for no event.
//
// # Scores
//
// Every final score is in [0, 100]. Where nothing is known of the fabric, of mates or of links, all nodes get the same. The
// formulas stand above Score and ScorePlacement, each with a worked example.
package nccltopology
