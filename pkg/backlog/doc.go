// Package backlog decides which of the pods that lack GPUs are worth another try.
//
// A scheduling queue asks of every event, for every pod that waits, whether the event may help the pod. Where thousands of pods
// wait for cards and pods end all the time, that is most of what the scheduler does. This package turns the question round: pods
// that ask for the same and are admitted by the same nodes are one kind, each kind knows the nodes that could take one of its pods
// now, and a node that changes is compared once with each request. A pod of a kind that no node can take is parked: nobody asks
// about it until one can.
//
//	            Park: no node can take it                       Wake: some can; the first in the queue,
//	attempt --------------------------------> parked ----------- more from turn to turn -----------------> attempt
//	failed  \                                   |  Parked: its time is up, or it asks for something else     ^
//	         \ some node has the cards          +------------------------------------------------------------+
//	          +--> not of this package: what it lacks is something else
//
// What is compared is necessary and not sufficient: the free cards of the nodes that admit the pod, and nothing else. So a parked
// pod could not have been placed, whatever else is true of it, and a pod that is woken may be refused again for a reason that has
// nothing to do with cards. It is not parked then, since some node has its cards.
//
// A pod that may preempt needs no free cards, and what helps it is not known here: it is never parked. It is one whose priority is
// above that of anybody who holds cards, unless it says that it preempts nobody.
//
// # Who is woken
//
// A node with one free card is no reason to try ten thousand pods that want one. Wake lets as many go as there are places, and at
// least a few, by priority and age. Where a place is as it was a turn later, those that were tried lack something else: twice as
// many go then, and so on. What is admitted by other nodes is another kind: who waits for one pool of nodes does not stand before
// those who wait for another.
//
// # What it must never do
//
// Keep a pod from the cards that it could have. Three things see to that: what is told of a node after Park counts in Wake, if
// the cards are still free then; a pod is parked for a limited time, after which it is tried whatever is known; and what is beyond
// the most that is kept is not parked at all.
//
// The package has no clock and does no I/O: times come in as values. It is not safe for concurrent use.
package backlog
