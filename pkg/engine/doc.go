// Package engine wires the pure core to one scheduler process.
//
// There is one Engine a process, however many profiles its configuration has: every plugin instance shares its ledger,
// chooser and clock, since two ledgers would sell one card twice. It owns the goroutines of this module:
//
//	Start (first plugin built) --> observe registers its informer handlers
//	                           --> report loop:  queue of events  -> API server   (bounded, drops and counts when full)
//	                           --> parked loop:  the ledger's changes -> pods that wait for cards (package backlog) are tried again
//	                           --> resolve loop: binds of unknown outcome -> read back until known
//	                           --> state endpoint: introspect serves ledger, gangs and sweeps (where there is an address)
//	                           --> spans: tracing sends them (where the environment asks for it)
//	Close (scheduler stops)    --> all of them are waited for
//
// The first scheduling cycle of a GPU pod blocks once in TakeOver, which reads the bound pods from the API server: a replica
// that stood by may have a watch that hangs. Bindings pass a fence that is open while this replica can show that it leads.
//
// # Binds
//
// Bind sends one Binding that carries the allocation record, so that a bound pod has its record and an unbound one has
// not. An error does not tell whether the Binding was committed, so the pod is read back before anything is released:
//
//	POST binding --nil--> bound
//	     |error
//	     v
//	GET pod --ours--> bound            --elsewhere or gone--> failed
//	     |not bound: every POST so far refused by the server (4xx) --> failed
//	     |           else --> POST again (the server refuses a second commit), at most three rounds
//	     |cannot be read or still open
//	     v
//	ledger.Suspect: the cards stay held; the resolve loop reads on. A pod still unbound after lateCommit (an API server
//	gives up a request after 60 s, its default --request-timeout) is given back and woken.
//
// At most 64 Bindings are under way. The last cycle of a gang waits, in Pace, until few are left over, so that gangs are not let go
// far ahead of their binds.
//
// # Attempts
//
// What the plugins know together of one attempt to schedule a pod stands in its cycle state (Attempt), for reports alone: how
// far the pod came, which is what a rollback is counted by, and the trace that its spans belong to. An attempt is counted
// once, by RolledBack, after the cards are free and with no lock held.
package engine
