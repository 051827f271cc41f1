// Package podgroup is the door to the PodGroups of scheduling.x-k8s.io/v1alpha1: it reads what users ask of a gang and
// shows on the API what the gang does. It decides nothing about gangs.
//
//	            API not served --every 5 s--> served --list, watch--> Parse --> Sink.GroupSeen / GroupGone
//	Watcher:         ^                                   |
//	                 +-------- API removed: every group is gone ------+
//
//	            Set (last state of each group) --every 200 ms--> what differs from what the API shows
//	Writer:      ^ Seen (what the API showed at first)             |-> status of the PodGroup      (server-side apply)
//	                                                               |-> annotation waiting-reason   (server-side apply)
//	                                                               |-> PodScheduled of parked pods (patch)
//	                                                               +-> one event for each new reason that stands
//
// While Bindings queue up the first two wait for up to 5 s, but for the count of members that have ended.
//
// The API comes from a custom resource, which may be installed after the scheduler, removed and installed again. None of
// that ends a process, and while it is absent two lines of log say so.
//
// # Status
//
// A state is written whole, as computed from the gang, never added to what stands there: writers that conflict, and
// writes that are lost, cannot leave a wrong count behind. A write that failed is tried again, with the state of that
// moment, after 250 ms, then twice as long each time, up to 30 s or what the server asks for. As long as it is not known
// whether a write happened, what the API shows counts as unknown. A group that is gone, or whose name has passed to
// another UID, is dropped.
//
// Someone else's change to the status is not fought over: it stands until the gang's state changes. Where another
// controller writes the status, Desired.Phase is left empty, and the reason is all that is written.
//
// # Parked pods
//
// A scheduling cycle writes the condition of the pod that it tried, but members whose gang is not complete are never
// tried, nor are those for whom the first of their gang is. The Writer shows the reason on them, once it has stood for a second. It reads the pod first and writes for
// exactly that version, so that a pod which was bound in between is never shown as waiting.
package podgroup
