// Package backlog decides which of the pods that lack GPUs are worth another try.
//
// A scheduling queue asks of every event, for every pod that waits, whether the event may help the pod. Where thousands of pods
// wait for cards and pods end all the time, that is most of what the scheduler does. This package turns the question round: pods
// that ask for the same are one kind, each kind knows the nodes that could take one of its pods now, and a node that changes is
// compared once with each kind. A pod of a kind that no node can take is parked: nobody asks about it until one can.
//
//	            Park: no node can take it                       Wake: some can; the first in the queue,
//	attempt --------------------------------> parked ----------- more from turn to turn -----------------> attempt
//	failed  \                                   |  Parked: its time is up, or it asks for something else     ^
//	         \ some node has the cards          +------------------------------------------------------------+
//	          +--> not of this package: what it lacks is something else
//
// What is compared is necessary and not sufficient: cards, and nothing else. So a parked pod could not have been placed, whatever
// else is true of it, and a pod that is woken may be refused again for a reason that has nothing to do with cards. It is not parked
// then, since some node has its cards.
//
// # Who is woken
//
// A node with one free card is no reason to try ten thousand pods that want one. Wake lets as many go as there are places, and
// at least a few, by priority and age; while places are left it lets twice as many go at the next turn, since those of the last
// were taken up by nobody. So whatever keeps the first pods from their places, all others are tried within a few turns.
//
// # What it must never do
//
// Keep a pod from the cards that it could have. Three things see to that: a state of a node that came after Park counts in
// Wake; a pod is parked for a limited time, after which it is tried whatever is known; and what is not known, as a kind beyond
// the most that are kept, is not parked at all.
//
// The package has no clock and does no I/O: times come in as values. It is not safe for concurrent use.
package backlog
