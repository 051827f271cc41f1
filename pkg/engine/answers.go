package engine

import fwk "k8s.io/kube-scheduler/framework"

// TerminatingNote is what the plugins add to a refusal where cards come free by themselves (observe.Observer.Terminating).
const TerminatingNote = "; some cards are held by terminating pods"

// QueueIf is the hint for an event that cures a refusal or does not.
func QueueIf(cures bool) fwk.QueueingHint {
	if cures {
		return fwk.Queue
	}
	return fwk.QueueSkip
}
