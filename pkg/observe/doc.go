// Package observe is the only door from the API into the ledger: informer handlers that turn what happened to nodes,
// ResourceSlices and pods into ledger transitions. Handlers call no API and block on nothing but memory.
//
//	Node, ResourceSlice -> inventory.Resolve -> ledger.SetNode / RemoveNode
//	Pod bound, record readable            -> ledger.Adopt        (the API is the truth)
//	Pod bound, no readable record         -> ledger.Adopt        (its number of cards, which ones is not known)
//	Pod succeeded, failed or deleted      -> ledger.Release      (whether or not Unreserve ran)
//	Pod replaced by one of the same name  -> ledger.Replace      (one step: nobody sees the cards free between)
//	Pod not bound                         -> nothing: what it holds, if anything, is in flight
//
// A bound pod whose cards the ledger knows keeps them until it ends: a record edited or removed afterwards changes
// nothing but is reported, since the containers run on the cards of the first record.
//
// The ledger may be told of a pod by somebody who has read it from the API server, before the informer's store has it: a new
// leader does so, since its watch may hang. And the informer of ended pods may know of an end before the store does. A store
// says nothing of what is newer than itself: see ahead.go.
//
// The handlers of one informer run in no order: the scheduler's own may wake a waiting pod before the ledger has heard
// of the event. Filter therefore calls CatchUp before it refuses a node that has changed, and queueing hints call
// PodChanged, NodeChanged and SliceChanged before they answer. All may be called at any time and any number of times.
package observe
