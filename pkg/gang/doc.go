// Package gang decides for one PodGroup which members may be tried, planned, held, bound and evicted: all that it takes
// for the quorum, or none.
//
// A State is a value that Decide takes from event to event. It calls nothing, starts nothing and reads no clock: it
// answers with actions, and its owner, who serializes the events, carries them out. It is kept for one PodGroup UID and
// its members are pods by UID, so a group or a pod that is created again under the same name inherits nothing.
//
// # Data flow
//
//	PodGroup ------- SpecChanged, GroupGone --+
//	pods ----------- MemberSeen, MemberGone --+                +-> Release   ledger: planned cards go back
//	nodes ---------- NodeGone, Cured ---------+--> Decide -----+-> Reject    who waits at Permit is turned away
//	clock ---------- Tick, at Next -----------+      ^         +-> Allow     who waits at Permit goes on to bind
//	PreEnqueue ----- Enqueue, asks only ------+      |         +-> Activate  the queue tries pods now
//	PreFilter ------ Admit; PlanMade,         |    State       +-> Evict     the eviction API removes bound pods
//	                 PlanFailed --------------+
//	PostFilter ----- MemberRefused -----------+
//	Permit --------- MemberReserved ----------+
//	Unreserve, PostBind: MemberUnreserved, MemberBound
//
// # A gang
//
//	          PlanMade           all are reserved         the quorum is bound
//	forming ------------> planned --------------> admitting -----------------> running ----> finished
//	 ^ ^ ^                   |                      |                           |   ^
//	 | | |     failure       |    failure before    |          lost members:    |   | the quorum
//	 | | +--- (backoff) -----+    the canary        |          below quorum     |   | is bound again
//	 | |                          is bound          |                           v   |
//	 | +----- (backoff) ----------------------------+                          broken
//	 |                                                                         |    |
//	 +-------------------------------------------------------------------------+    +--> planned -> admitting
//	           Evict: when the rest is gone; any policy: when nobody is left            Replace: the missing ones
//
// The phase is not stored: it follows from the members, the plan and whether the gang ran.
//
// What counts towards the quorum, minMember:
//
//	alive      bound, not terminal, not terminating, node not lost, not being evicted
//	succeeded  ever: seen, also deleted since, or recorded in the PodGroup's status by an earlier process
//	held       planned, reserved, or admitted and not terminating
//
//	need = minMember - alive - succeeded - held     what a plan must place; > 0 or there is none to make
//	the quorum is bound:  alive + succeeded >= minMember
//	a plan may be made:   need > 0, pending >= need, none is leaving, no backoff, no canary on its way
//
// Example: minMember 4; one member succeeded and was deleted, two run, one is pending. Need is 1, and the pending one is
// planned. With two pending, one of them is planned, and the other goes alone once the first is bound.
//
// Failed members count nowhere. Members beyond the quorum are candidates for plans, and are not waited for: they are
// parked until the quorum is bound and then go alone, like pods of no gang. What befalls them befalls nobody else.
//
// # A member
//
//	              PlanMade          Permit           Allow             bind
//	gated --> pending ----> planned ------> reserved -------> admitted -----> bound ---> succeeded
//	           ^  ^ ^ \        |                |              ^    |             \
//	           |  | |  \       | Release        | Reject       |    | Unreserve    +--> failed
//	           |  | +---\------+                v              |    |
//	           |  +------\------- Unreserve -- leaving         |    |
//	           |          \                                    |    |
//	           |           +--- alone, the quorum is bound ----+    |
//	           +----------------------------------------------------+
//
// A member whose object is deleted is no member any more, in whatever stage. One that is terminating before it was bound
// has left as well, unless its bind is on its way. One that the API shows bound is bound, whatever was known before.
// Sightings that are older than what is known (unbound after bound, alive after terminal) change nothing.
//
// # The canary
//
// When the last member that is needed has reserved, it is allowed first and alone: the canary. The others still hold
// nothing that the API knows. If its bind fails, all of them are rejected, and no half of the gang is left. When it is
// bound, and the quorum still holds, all others are allowed at once. A plan of one member is allowed without ado.
//
// A canary whose plan fails while it binds cannot be called back. Nor can the others, once they are allowed: a bind of
// theirs that fails costs that one member, which is planned anew, after a backoff, beside those that are bound. So a gang
// that never ran may be bound in part. If its quorum is not bound within the Permit timeout of the first bind, and
// nothing is on its way, what is bound is evicted: it would hold cards for nothing, perhaps those that another such half
// waits for. Only members that this State had bound are evicted on that account: of others it does not know how they
// came to be, and they may have run before.
//
// # Failure and backoff
//
// A plan fails, before its canary is bound and the others are allowed, when a member that it holds is deleted,
// terminating, terminal or unreserved, or refused once too often; when the node of one is gone; when the Permit timeout
// has passed since the first one reserved; when PlanTTL has passed with members missing and none arriving; when a member
// that is still needed cannot be placed (PlanFailed). Then every reserved member is rejected, every planned one is
// released, and the gang backs off:
//
//	backoff = min(initial * 2^(failures-1), max)      initial 10 s, max 60 s: 10, 20, 40, 60, 60 ... s
//
// Failures count up until the quorum is bound. Nothing is held while a gang backs off. At its end the lead, the first
// pending member in order, is activated. After PlanFailed it is so only if Cured or what implies it came since the plan
// was asked for: a member, another spec, the end of a node's exclusion. Otherwise the gang waits for that, and is
// activated when it comes.
//
// A node that refuses a planned member is excluded for one minute. Of one plan three members may be refused: each is
// released and planned anew alone. A refusal that names no node fails the plan at once.
//
// Members that are missing are no failure. The gang waits without backoff; the arrival of the last one activates all.
// While a plan waits for members and nothing happens, they are activated again every 250 ms.
//
// # Loss
//
// A gang has run once its quorum was bound, until no member is bound any more; then it forms afresh. When alive +
// succeeded falls below minMember before that:
//
//	Replace  (default) as many as are missing are planned together, beside the others
//	Keep     nothing; members that come go alone as long as one is alive
//	Evict    every bound member is evicted, again every 10 s until it is terminating or gone; those that are bound while
//	         that lasts follow them. Nothing is planned meanwhile. Then the gang forms afresh; what succeeded counts
//
// A larger minMember is no loss. No policy lets a first start go below minMember.
//
// # Every event in every phase
//
// "fails" is the failure above. "-": nothing but what the line says for every phase.
//
//	                  forming           planned            admitting           running     broken       finished
//	SpecChanged       all: the new numbers hold from here on; counts as Cured. No plan is given up for it
//	MemberSeen        all: the member moves as drawn above, then:
//	  new, ungated    enough: activate  candidate          candidate           activate    as forming   activate
//	  bound           -                 leaves the plan    canary: allow       -           -            -
//	  ended, leaves   -                 planned: fails     canary: fails       may break   -            -
//	MemberGone        -                 planned: fails     canary: fails       may break   -            -
//	PlanMade          -> planned        refused one: holds too late: Release   Release     as forming   Release
//	PlanFailed        backs off         fails              canary bound: fails ignored     as forming   ignored
//	MemberReserved    Reject            waits; the last    waits               alone:      Reject       alone:
//	                                    -> admitting                           Allow                    Allow
//	MemberRefused     -                 one anew; fails    -                   -           -            -
//	                                    the fourth time
//	MemberUnreserved  leaving: pending  fails              canary: fails; else alone:      as forming   -
//	                                                       anew after backoff  pending
//	MemberBound       as MemberSeen, bound
//	NodeGone          -                 planned on: fails  canary's: fails     -           -            -
//	GroupGone         all: the plan is given up, nothing is planned or goes alone any more
//	Cured             activate lead     noted              noted               activate    as forming   activate
//	                                                                           pending                  pending
//	Urgent            end of backoff    -                  end of backoff      as forming  as forming   -
//	Tick              end of backoff,   also TTL, timeout, also timeout        exclusions  as forming,  -
//	                  exclusions        activate again                                     evictions
//
// While a gang of the running phase has a plan (its minMember grew), that plan's events do what planned and admitting
// say. Events of pods that are not members do nothing; at Permit they are rejected.
//
// Each event takes time logarithmic in the number of members, except those that concern all of a plan or all that are
// pending: these sort them.
package gang
