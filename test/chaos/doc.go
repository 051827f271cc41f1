// Package chaos is a long-running test that tries to make the scheduler sell a card twice, lose one, or leave half a gang.
//
//	make chaos SEED=1 DURATION=10m
//	go test ./test/chaos -run TestChaos -chaos.seed=1 -chaos.duration=60s
//
// bin/local-control-plane (etcd and API server) and two replicas of bin/gpu-topology-scheduler run as processes of their
// own. Between each replica and the API server stands a proxy of its own (package faults). Nothing else acts on the cluster:
// the test itself plays kubelet, pod garbage collector and the controllers of jobs.
//
//	seed --> script --steps--> driver --pods, PodGroups, nodes, records--> API server <--+
//	                             |  |                                        |           | faults
//	                             |  +--kill -9, SIGSTOP, SIGCONT--> replica 0, 1 --> proxy 0, 1
//	                             |                                           |      ^
//	                             +--faults, cut and hung watches-------------|------+
//	                                                                         v
//	                     package checker <--watch, list-- API server    state endpoints
//
// # Rounds
//
// Chaos lasts for the duration, in rounds of at most roundLength. Each ends like this:
//
//	calm    faults are withdrawn, paused replicas go on, killed ones start; no job ends any more. What the chaos broke stays
//	        broken: damaged records, cards and nodes that are gone. The laws of rest must come true
//	heal    nodes and cards return, pods with damaged records are deleted. The laws of rest must come true for all nodes
//	drain   (last round) everything is deleted: no replica may hold anything
//
// Beside the laws of package checker two more hold: a replica ends only when it is told to (law process; see below for the
// exceptions), and no sweep, and no later cycle of a pod, has to repair what an event or a rollback should have (law repair:
// the kinds of lateRepairs), but for what a pod held that lived and died while no watch told the replica anything. The second
// tells of faults in what the sweeps then hide.
//
// The wait for rest ends as soon as it is there. It may take lateCommit of package engine, a minute and a half: as long as
// that the cards of a bind whose outcome nobody could learn stay held.
//
// # What a seed determines
//
// Every decision is drawn from one PCG in one goroutine, and none depends on what the scheduler does: the same seed gives the
// same steps in the same order, with the same names, sizes, faults, pauses and rounds (TestScriptIsDeterministic). The
// duration is counted in steps and pauses; a slow machine takes longer for it. What the steps meet is not determined: which
// request an armed fault hits, whether a pod is pending, waiting at Permit or bound when it is deleted, which replica leads
// when the leader is killed. So a replay runs the same attack, and finds the same kind of fault after a few tries rather than
// each time. The report of a failed run has the last lines of the log that touch the pods, nodes and cards involved;
// events.log in the folder that it names has all.
//
// # Memory
//
// A process that is killed every half minute tells nothing of what grows. With
//
//	make chaos SEED=7 DURATION=20m CHAOSFLAGS='-chaos.steady -chaos.profiles=/tmp'
//
// both replicas live as long as the run, and the first one to lead leads to its end: there are no kills, pauses and faults on
// leases, and vanished members of gangs come back under another name (see exitUpstream). An end of either is a violation. The
// report tells how heap, goroutines and resident memory went: means of each fifth of the run, and the slope with its standard
// error. The folder gets a heap profile a minute for go tool pprof.
//
// Two things grow for a while by design. The ledger keeps the UIDs of the last 65,536 pods that are gone, some 100 bytes each
// (tombstones). client-go keeps every event for 6 to 12 minutes, to see whether it comes again (events: tools/events,
// finishTime), and writes the last count of each series while it holds up all others: the slower the API server, the longer.
//
// # What is within the rules
//
// Some faults no scheduler with leader election can survive, and the script keeps to what is sold as safe:
//
//   - a request is under way for less time than the part of a lease in which its holder sends no Binding any more
//     (faults.MaxDelay): what the network holds back for longer nobody can take back.
//   - a record that is damaged does not become another one that is valid: it is removed, unreadable, or names another node,
//     too few cards or cards that do not exist.
//
// A leader that is stopped for longer than its lease goes on after another one leads, and so does one that cannot renew it:
// that is among the faults.
//
// A replica may end because it lost its lease, or because the scheduler cache of Kubernetes gives up (exitUpstream). Any
// other end that was not ordered is a violation.
package chaos
