// Package reconcile sweeps: every period, and soon after a watch was found broken, it compares the ledger with the pods and
// nodes that the informers have, and mends what differs. Events do the same at once (package observe); a sweep is for those
// that were lost, for handlers with a fault, and for what only time brings about.
//
//	ledger.Entries ----------+
//	informers' pods ---------+-> View -> Plan -> repairs -> observe, ledger: the same doors as for events
//	in flight, suspicions ---+                     |
//	                                               +-> log, metric by kind, event on pod or node (of the leader), Summary
//
// Plan (plan.go) is a pure function. Loop (loop.go) has the clock; a sweep (sweep.go) reads, calls Plan, and makes each repair
// only if what it was planned on is still so. Repairs that charge come before those that free.
//
// # What differs, and what comes of it
//
//	ledger           API                                repair
//	bound            pod gone (*)                       orphan: released, seen twice
//	bound            pod not bound                      none: the store is behind, a bound pod is never unbound
//	bound            on another node                    differing: charged there, at once
//	bound, unknown   record readable, or count differs  differing: charged anew, at once
//	bound, cards     claims count otherwise             differing: the unknown ones anew, the cards stay
//	bound, cards     record names other cards           record-edited: told once; the containers run on the first ones
//	assumed          pod gone (*)                       orphan: released, seen twice
//	assumed          pod not bound                      none: it is in its cycle; after assumedLimit expired: given back
//	assumed          bound as reserved                  unconfirmed: confirmed, seen twice (its event is on its way)
//	assumed          bound otherwise                    differing: charged as bound, at once
//	unknown          anything                           none: whoever sent the Binding reads the pod back until it knows
//	nothing          bound and holds GPUs               missing: charged, at once
//	released         bound and holds GPUs               tombstone: charged, seen twice
//	cooling          anything                           none: it ends by itself
//	node unknown     node with GPUs                     node-missing: read
//	node known       none                               node-gone: forgotten; its pods' holdings stay until they go
//
// (*) Not in the store, its name taken by another UID, or succeeded or failed. A pod that waits at Permit, or whose Binding is
// being sent, is left alone whatever the store shows, and so is one that was read from the API server itself, for as long as
// the store is older than that (observe.Observer.Ahead): after a change of the leader, while the watch of the new one hangs.
//
// No order of events is known that leaves a tombstone on a living pod: what the ledger takes for gone was deleted, or had
// succeeded or failed. Where the store still shows it as living it may be behind, which the pod's version tells
// (observe.Observer.Outlived). The repair is for a pod whose phase somebody has set back since.
//
// Every node is read again each time, so that a description that has grown too old closes its cards (TopologyMaxAge). Whether
// a node's facts contradict each other the ledger derives itself, and ends it when they agree; a sweep counts and logs both.
//
// # A suspicion
//
//	         seen the first time          seen by a sweep confirmAfter or later
//	(none) ----------------------> raised ------------------------------------> repair
//	  ^                              | |
//	  |  not seen, or of another     | | seen sooner
//	  |  kind or holding             | +--> raised, as old as before
//	  +------------------------------+
//
// It belongs to one holding, by its revision: a pod that was given back and reserved again is judged anew. One sweep alone
// never releases anything, and never overrules the ledger's word that a pod is gone. A sweep that raised one is followed by
// the next after confirmAfter (5 s), so that an orphan is free at most a period, its jitter and 5 s after its pod went.
//
// # Time
//
// A sweep visits the ledger node by node and the informers' stores bucket by bucket, and locks either for microseconds. What
// agreed is remembered by two numbers, the versions of both sides, and is not compared again before one of them changes. A
// sweep makes at most maxComparisons; so one that follows a restart takes little longer than others, and the last of 50,000
// records, all of which the handlers have read once by then, is read again in the 49th sweep.
package reconcile
