// Package ledger records which pod holds which GPUs, and answers at any moment what each node still has.
//
// It is a cache: the truth is the record on every bound pod. After a restart it is built again by SetNode and Adopt,
// in any order, with the same result. What it has beyond that truth are the pods in flight, between Reserve and the
// news that they are bound.
//
// # Data flow
//
//	plugin  Reserve ---- Assume -----+
//	        gang plan -- AssumeAll --+                                  +-- Node ---> Filter, Score: one atomic load
//	        Unreserve -- Forget -----+      +----------------------+    |
//	        Bind ------- Confirm,    +----> | pods:  UID -> holding| ---+-- Nodes --> sweeps, metrics
//	                     Suspect     |      | nodes: name -> cards,|    |
//	events  bound pod -- Adopt ------+      |        pods, state   |    +-- With, Without: preemption dry runs
//	        read back -- Refute -----+      +----------------------+    |
//	        pod gone --- Release ----+                                  +-- Holding, On, Marks, Stats, Check
//	        same name -- Replace ----+
//	sweep   alive ------ Restore ----+
//	        node ------- SetNode, RemoveNode
//
// Everything goes by pod UID. Every writer takes the ledger's one mutex, changes the records in memory and publishes
// the new state of each node it changed: an immutable NodeGPUAllocation behind an atomic pointer. Readers of nodes
// take no lock. The mutex is the last one to take: nothing is called back, formatted or locked under it.
//
// # One pod
//
//	           Assume, AssumeAll               Confirm
//	absent <-----------------------> assumed -----------> bound
//	 ^  |           Forget              |                  ^ ^
//	 |  |                               | Suspect          | |
//	 |  |                               v      Confirm     | |
//	 +--|----------------------------- unknown ------------+ |
//	    |           Refute                                   |
//	    +----------------------------------------------------+
//	                Adopt, from every state but released
//
//	every state ---- Release ----> released, a tombstone ---- Restore ----> bound
//
// Assumed: the pod is in its scheduling cycle. Unknown: the bind request was sent and its outcome is not known, so
// the cards must not be given away before the pod is read back. Bound: the API server says so. Released: the pod is
// deleted or terminal; its UID never holds anything again, and events that arrive late change nothing, unless a sweep
// finds that the pod is alive after all and calls Restore. The oldest tombstones are dropped beyond 65,536, then the pod
// is absent.
//
// What every operation does in every state; "-" is: nothing changes, and the answer is false.
//
//	            absent        assumed        unknown        bound          released
//	Assume      -> assumed,   nil if equal,  nil if equal,  nil if equal,  ErrReleased
//	            if free       else conflict  else conflict  else conflict
//	Confirm     -             -> bound       -> bound       true           -
//	Suspect     -             -> unknown     true           -              -
//	Forget      -             -> absent      -              -              -
//	Refute      -             -              -> absent      -              -
//	Adopt       -> bound      -> bound       -> bound       replaces       ErrReleased
//	Release     -> released,  -> released    -> released    -> released    -
//	            false
//	Restore     -> bound      -> bound       -> bound       replaces       -> bound
//
// An equal Assume keeps the stage. Adopt replaces the holding in one change, also on another node. AssumeAll is
// Assume for many pods or none. Replace(old, h) is Release(old) and Adopt(h) in one change.
//
// The orders in which events may arrive, and what comes of them:
//
//	delete before add          Release leaves a tombstone, the late Adopt is refused
//	confirm after forget       Confirm answers false: the caller adopts what the API server says
//	forget after confirm       nothing: Forget releases assumed pods only
//	bind outcome unknown       Suspect; then Confirm or Adopt (it was committed), or Refute (it was not)
//	same name, new UID         Replace: no reader sees the cards free in between
//	delete of the old UID      nothing: the new pod has its own record
//	the same event again       nothing, and no new generation
//	assumed on n1, bound on n2 Adopt moves the pod; it is charged on n2 before it leaves n1
//
// A holding need not be a pod's: Replace(pod, the same cards for a made-up UID) keeps cards back, for example while
// the containers of a force-deleted pod still run, until that UID is released.
//
// # One node
//
//	unknown --SetNode(t)--> open --SetNode(nil)--> closed (no facts) --SetNode(t)--> open ...
//	   ^                                                                               |
//	   +------------------------------- RemoveNode ------------------------------------+
//
// A node's state is derived from its cards and the holdings on it, and from nothing that happened before. So it does
// not depend on the order of events, a node that returns under its name inherits nothing but the holdings of live
// pods, and every conflict ends with its cause.
//
//   - A share belongs to the card with its UUID, wherever that stands now. The index decides only where the share or
//     the card there has no UUID. Cards in another order keep their holders.
//   - A card that left the node: its shares are Missing, charged to no card, and count again when it returns.
//     A sick card keeps its holders and is closed to new pods.
//   - A pod whose cards are not known (UnknownCards, UnknownMIG) takes as many of the free ones out, Foreign: the
//     usable ones with the highest index.
//   - A share on a card that is in MIG mode now, an instance on one that is not, or an instance that does not exist:
//     a Conflict that closes the card.
//   - Cards held beyond what they have, more unknown cards than free ones, a share of a card that may be any of the
//     node's: a Conflict that puts the node in quarantine, with every card closed.
//
// Each publication gets the next value of one counter, so a node's generation only grows, also across its removal.
//
// The usual node has none of this: its use is the sum of its holdings, and a holding is added or subtracted in time
// proportional to its shares. Check compares every published state with one derived from nothing.
package ledger
