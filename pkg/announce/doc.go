// Package announce writes the events of scheduling cycles behind Bindings.
//
// A scheduler writes two things for each pod: the Binding, for which a job waits, and an event that says so, for which nobody
// does. An event costs an API server two thirds of what a Binding costs it, and kube-scheduler sends both as soon as it has them.
// Here events pass a Limiter: while Bindings of GPUTopology are open none is written, else several at a time, and each goes after maxDelay at the
// latest, as it would have gone at once. So a burst of pods is bound first and announced behind, no event is dropped for it, each
// keeps the time at which it happened, and what kube-scheduler writes in a second of a long burst is written then too.
//
//	Scheduler --> Framework.EventRecorder --> events.EventBroadcaster --> Sink --> Limiter --> API server
//	              (another, see WithRecorder)  (client-go's, its own)
//
// What a plugin says through its handle (a victim of preemption, a gang without a place) goes the usual way.
//
// A process that ends loses the events that wait, which is what happened in the last maxDelay, beside those under way, which
// kube-scheduler loses too.
package announce
