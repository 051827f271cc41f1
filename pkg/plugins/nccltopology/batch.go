package nccltopology

import "sync"

// batch follows kube-scheduler's batching of pods that are alike. For half a second kube-scheduler does this:
//
//  1. For the first pod it scores all nodes in question, in a large cluster a sample.
//  2. For each other pod, where the last node serves once more, it scores that one anew and has all normalized (NormalizeScore).
//  3. Where the last node does not, it asks nobody. Either way the pod is offered the best of the nodes that are left.
//
// Once the sampled nodes of a rack are full, the batch would go on in another rack though the first one has room. So it is refused at
// step 2 when the last pod went to another rack than the one before; that pod stays there. Step 3 cannot be refused.
type batch struct {
	mu sync.Mutex
	// rack is where the last pod of the batch went, noRack before that is known, and for a node outside of the fabric.
	rack int
}

const noRack = -1

func newBatch() *batch { return &batch{rack: noRack} }

// begin notes a cycle that scores all nodes in question: a batch may begin with it.
func (b *batch) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rack = noRack
}

// stays notes the rack that the last pod went to, and reports whether it is the one before, as far as that is known.
func (b *batch) stays(rack int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.rack
	b.rack = rack
	return before == noRack || before == rack
}
