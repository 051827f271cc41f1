// Package headroom sets how far the heap may grow before garbage is collected: a small one by a fixed amount, a large one by 75 %.
//
// The Go runtime collects when the heap has doubled. A scheduler of a small cluster has tens of MiB alive and makes several MiB
// of garbage for every pod, so it collects many times a second while a queue is worked off, and each time marks all that is alive.
// The time for that is taken from the cycles. Where the heap may grow by at least some MiB, whatever is alive, a small process
// collects less often. A large one collects somewhat more often, for less memory:
//
//	next collection at about max(1.75 x live, live + room), never above 5 x live
//
// The runtime's only knob is a percentage, which is set anew after each collection. Where much more is alive after one than after
// the collection before, as when a large cluster is listed, the old percentage stands until it is set anew: that is what the bound is
// for. The process is larger by about room at most once it has started. Who sets GOGC has decided otherwise: then nothing is done.
// GOMEMLIMIT stands beside it: near that limit the runtime collects more often, whatever the room.
package headroom
