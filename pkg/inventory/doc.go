// Package inventory finds out which GPUs a node has: it turns Kubernetes objects into a topology.Node.
//
//	Node, ResourceSlices --source--> topology.Spec --topology.New--> cards --closing signals--> Result
//
// Resolve is a pure function of its arguments: no client, no clock, no state. Cache puts a memory in front of it, so
// that the updates that a kubelet sends every few seconds cost a comparison.
//
// # Sources
//
// The first source that answers describes the node; a weaker one overrides nothing that it says.
//
//	name         read from                                        UUID  health  VRAM  NUMA       links
//	annotation   gputopology.io/topology                          yes   yes     yes   yes        yes
//	dra          ResourceSlices of driver gpu.nvidia.com          yes   yes     yes   no         catalogue, else PCIe root
//	hami         hami.io/node-nvidia-register, node-nvidia-score  yes   yes     yes   yes        scores, else catalogue
//	volcano      volcano.sh/node-vgpu-register                    yes   yes     yes   no         catalogue
//	gfd          labels nvidia.com/gpu.product, .count, .memory   no    no      yes   catalogue  catalogue
//	allocatable  status: nvidia.com/gpu and nvidia.com/mig-*      no    no      no    no         no
//
// Catalogue means topology.Lookup by product and number of cards. Where the order of a source's cards need not be that
// of nvidia-smi (dra, volcano) only a machine whose pairs are all alike is taken from it. What no source says is
// unknown: an unknown link is the slowest, an unknown NUMA node is shared with nobody, a card of unknown size is given
// out whole only.
//
// A source that cannot be read as a whole is reported as a Problem, and the next one is asked. An entry that is wrong by
// itself closes its card, with the reason in Card.Fault and a Problem, and leaves the others:
//
//	a size of 0, below 0 or above 16 TiB            card closed
//	the same UUID twice                             both cards closed (topology.New)
//	link in one direction only, or two that differ  the weaker direction counts (topology.New)
//	score for a card that is not on the node        ignored, reported
//	an index left out (a card fell off the bus)     a closed card without UUID stands there, so that no index moves
//	an index twice, more than 64 cards              source refused
//	ResourceSlices missing from a pool              the pool's cards closed until it is complete
//	MIG counts that cannot be read or laid out      the cards in MIG mode closed
//
// # Who else can close a card
//
// Every signal can close a card, none can open one that another closed. Whatever source describes the node, a card is
// closed by:
//
//   - health in dra (taints NoSchedule and NoExecute), hami and volcano, found by UUID;
//   - hami.io/device-cordon, a list of UUIDs;
//   - the kubelet: allocatable nvidia.com/gpu (volcano.sh/vgpu-number with source volcano) of 0 closes every card that
//     is not in MIG mode. A smaller number than there are usable cards closes none, because it does not say which: it
//     is reported, and Result.Allocatable lets the caller limit the number of whole cards in use. Neither applies where
//     a DRA driver offers the cards, the smaller number not where HAMi or Volcano count shares. A node without the
//     resource says nothing;
//   - age: an annotation with observedAt more than Options.MaxAge before or after Options.Now closes all its cards. They
//     stay listed, so that pods keep what they hold, and no weaker source takes over. Result.Until says when the node
//     has to be looked at again. Without observedAt, or with MaxAge 0, an annotation never grows old.
//
// # MIG
//
// Annotation and dra name the instances and their places. HAMi and Volcano cut cards in mode "mig" by themselves: such a
// card is in MIG mode and has no instances to give. The device plugin's strategy "mixed" only counts: gfd and
// allocatable share the instances out over the cards by NVIDIA's placement rules, evenly where the counts allow it. The
// number of instances is right, the card of each is a guess; the cards in MIG mode are taken to be the last ones.
// Example: 2 H100, nvidia.com/mig-1g.10gb: 14 and nvidia.com/gpu: 0 give two cards with seven instances each, at memory
// slices 0 to 6. Under strategy "single" nvidia.com/gpu counts instances: each becomes a card of its own that is given
// out whole.
//
// # Identity
//
// A pod holds a card by UUID and index. Package ledger finds it by UUID wherever the node's card has one, and by index
// where either side has none. So holdings survive a change of source in both directions: from annotation to gfd, which
// knows no UUIDs (the index counts), and back in another order (the UUID counts). The index is that of nvidia-smi, with
// dra the device's minor number, with volcano the place in its list.
package inventory
