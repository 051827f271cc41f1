package inventory

import v1 "k8s.io/api/core/v1"

// DRADriver is the name of NVIDIA's DRA driver: ResourceSlices of other drivers are not read.
const DRADriver = draDriver

// SameInputs reports whether two states of a node read the same to every source that is on the node object.
func SameInputs(a, b *v1.Node) bool {
	var was, is inputs
	was.collect(a, nil)
	is.collect(b, nil)
	return was.equal(&is)
}

// Describes reports whether the node object says anything that a source reads. It may be true for a node without a
// usable card, and is never false for one whose cards are known without ResourceSlices.
func Describes(node *v1.Node) bool {
	var in inputs
	in.collect(node, nil)
	in.uid = ""
	return !in.equal(&inputs{})
}
