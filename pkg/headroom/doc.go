// Package headroom lets a small heap grow by a fixed amount before garbage is collected.
//
// The Go runtime collects when the heap has doubled. A scheduler of a small cluster has tens of MiB alive and makes several MiB
// of garbage for every pod, so it collects many times a second while a queue is worked off, and each time marks all that is alive.
// The time for that is taken from the cycles. Where the heap may grow by at least some MiB, whatever is alive, a small process
// collects less often and a large one as often as before:
//
//	next collection at max(2 x live, live + room)
//
// The process is larger by room at most. Who sets GOGC, the runtime's own knob, has decided otherwise: then nothing is done.
// GOMEMLIMIT stands beside it: near that limit the runtime collects more often, whatever the room.
package headroom
