package nccltopology

import "sync"

// batch follows kube-scheduler's batching of pods that are alike. It scores all nodes in question for the first of them and offers
// the others what is left of these, best first; as long as the node that it took last serves once more, it scores that one anew and
// has all normalized again (NormalizeScore). For half a second it looks at no other nodes, which are a sample in a large cluster: once
// the sampled nodes of a rack are full, it would go on in another rack though the first one has room. So a batch ends
// when it leaves the rack that it began in.
type batch struct {
	mu sync.Mutex
	// rack is where the last pod of the batch went, noRack before that is known.
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

// stays notes the rack that the last pod went to, and reports whether the batch is still in the rack that it began in.
func (b *batch) stays(rack int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.rack
	b.rack = rack
	return before == noRack || before == rack
}
