// Package introspect serves what the scheduler holds in memory as JSON, for people, tests and other programs that compare
// it with the cluster. Nothing can be changed through it.
//
//	GET /v1/summary   counts of nodes, cards and suspects; whether the ledger is in sync, whether this replica leads
//	GET /v1/pods      what every pod holds, by node, then UID
//	GET /v1/nodes     how many cards of every node are in which state, and what contradicts itself there
//	GET /v1/gangs     every PodGroup, where it stands, and what is planned for its members
//	GET /v1/sweep     what the sweeps that compare ledger and cluster found and repaired
//
// Each answers from the moment the process has built its plugins: on a replica that stands by, and while the ledger is
// still being rebuilt (summary.synced is false then).
//
// # Lists
//
// pods, nodes and gangs come in pages of at most limit items (1 to MaxLimit, DefaultLimit where it is left out). A page that
// is not the last has a continue token, which is the parameter of the next one. Tokens name the last item that was served,
// so a list stays consistent with itself while items come and go: what is there all the time is seen once, what comes or goes
// meanwhile is seen or not. A pod that moves to another node between two pages may be seen twice or not at all. Pages are
// put together from snapshots of single nodes, so that no lock of the scheduler is held for longer than one node takes.
//
// # Errors
//
// The body of every answer that is not 200 is {"error": "..."}: 400 for a parameter that is unknown or out of range, 404 for
// another path, 405 for another method than GET and HEAD, 403 for a Host that is a name, 503 while Concurrent answers are being
// put together or Delivered long ones are being read already.
//
// # Access
//
// The endpoint has no authentication: it listens on the loopback address by default, and names of pods and nodes are all
// that it tells. A request must name the machine by an IP address or "localhost", so that no web page can have a browser on
// this machine read the answers under a name of its own.
//
// # Slow readers
//
//	request --> slot: read snapshots, encode --> slot is free --> write 64 KiB after 64 KiB, each within chunkTimeout
//
// So a reader who takes his time keeps others from nothing, and one who stops reading is cut off.
package introspect
