// Package book keeps the gangs of one scheduler process: which PodGroup has which members, what state each gang is in, and
// what was planned for whom. It feeds gang.Decide with what happens and carries out what it decides.
//
//	pods, PodGroups, nodes --events--> Book --gang.Decide--> actions
//	plugin: Enqueue, Admit, Take, ...  --^                     |
//	                                                           +-- Release          ledger.Forget      at once, under the lock
//	                                                           +-- Allow, Reject    waiting pods       at once, under the lock
//	                                                           +-- Activate         scheduling queue   by the loop
//	                                                           +-- Evict            API server         by the loop
//	                                                           +-- phase, reason    status.Writer      by the loop
//
// # Locks
//
// One mutex guards everything but the order of the queue. The scheduling queue calls Enqueue, Follows, MayCure and OrderOf with its
// own lock held, so nothing that takes the queue's lock is called while the mutex is held: whatever needs the queue or the
// API server goes through the loop. The order of locks is queue, book, ledger. The order of the queue (OrderOf) reads a map
// of its own behind a read lock, since it is asked for a few times for each pod that moves.
//
// # Members
//
// A member is a pod of one of our profiles that carries the label scheduling.x-k8s.io/pod-group and names no native group.
// The pod informer of a scheduler does not see pods that have ended: a member that leaves it has succeeded, failed or been
// deleted, and a second informer of ended members tells which. A bound member that vanished is kept as it is until that
// informer has had time to speak (vanishGrace), so that a job that ends is not mistaken for one that lost a member.
//
// The first pending member of a gang, its lead, is the one that events of the cluster wake, and it plans for all. A member that
// was tried in vain follows it: Follows keeps it out of the queue, which then asks nothing about it, until the book activates it.
// The book does so with whatever the gang decides to activate, and by itself where there is nobody to follow: where the member
// has become the lead, and where the gang wants no plan any more. So whoever waits is either asked about or has a lead that is.
//
// A pod that the queue shows before the informer's handler did is entered at once, so that the last member of a gang need
// not wait for a handler; it is entered only if the informer's store still has it, so that no deleted pod stays behind.
//
// # Cures
//
// The queue tells of an event by asking MayCure about one pod after the other. The gangs that it may help are noted, and told
// together once the queue is through (curePeriod), so that priority decides among them. A gang that is about to be planned
// meanwhile, since it stood in the active queue, yields to those of higher priority that are noted and could be planned, once
// between two plans.
package book
