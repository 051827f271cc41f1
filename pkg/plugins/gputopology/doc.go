// Package gputopology is the GPUTopology plugin: it takes GPU cards for a pod with regard to NVLink, PCIe and NUMA, and
// writes the choice in the same transaction that binds the pod.
//
//	PreFilter  reads what the pod asks for (request.FromPod); a pod without GPUs skips every later step
//	Filter     can the node's free cards meet the request (allocate.Fits)
//	Score      how good the best set on the node is, and what it leaves to others; formula on type allocate.Grade
//	Reserve    chooses the set and takes it in the ledger, in one step (ledger.Assume)
//	Unreserve  gives it back (ledger.Forget): idempotent, no I/O
//	Bind       sends a Binding that carries the allocation record (engine.Bind)
//
// A second plugin, GPUCapacityGate (type Gate), keeps pods that lack cards on every node out of the scheduling queue.
//
// The plugins only translate between the framework and the packages that decide. They keep no state of their own between two
// calls but what stands in CycleState; ledger, chooser and informer handlers belong to the engine that all profiles share.
package gputopology
