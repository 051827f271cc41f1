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
//	                             +--faults, cut watches----------------------|------+
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
// the kinds of lateRepairs). The second tells of faults in what the sweeps then hide.
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
// when the leader is killed. So a replay runs the same attack, and finds the same kind of fault after a
// few tries rather than each time. The report of a failed run has the last lines of the log that touch the pods, nodes and
// cards involved; events.log in the folder that it names has all.
//
// # What is within the rules
//
// Some faults no scheduler with leader election can survive, and the script keeps to what is sold as safe:
//
//   - a request that is under way ends before the lease of its sender does (faults.MaxDelay is shorter than leaseDuration).
//   - a record that is damaged does not become another one that is valid: it is removed, unreadable, or names another node,
//     too few cards or cards that do not exist.
//   - a leader does not go on after another one leads. Kubernetes' scheduler does go on: for up to its renew deadline after
//     it was stopped for longer than its lease, and while it gives a lease back that it could not renew. Binds that it sends
//     then may meet those of its successor on one card. With -chaos.overlap such pauses, and faults on leases, are made too.
//
// A replica may end because it lost its lease, or because the scheduler cache of Kubernetes gives up (exitUpstream). Any
// other end that was not ordered is a violation.
package chaos
