// Package announce writes the events of scheduling cycles behind Bindings.
//
// A scheduler writes two things for each pod: the Binding, for which a job waits, and an event that says so, for which nobody
// does. To an API server they cost about the same, and kube-scheduler sends both at once: while a thousand pods are bound, half of
// what the API server does for the scheduler is events. Here they stand in a Line. While Bindings are open one event is written at
// a time, so events go on at the rate of a client that waits for each answer, however long the burst is and even if a Binding
// hangs; when none is open, or too many events wait, several are. No event is dropped for that, each keeps the time at which it
// happened, and they are written in the order in which they came.
//
//	Scheduler --> Framework.EventRecorder --> events.EventBroadcaster --> Sink --> Line --> API server
//	              (replaced, see Profile)      (client-go's, its own)
//
// What a plugin says through its handle (a victim of preemption, a gang without a place) goes the usual way.
//
// A process that ends loses the events that still wait, as kube-scheduler loses those under way.
package announce
