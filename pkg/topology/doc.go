// Package topology describes the GPUs of one node: which cards there are, how each pair is joined, where they sit
// (NUMA node, PCIe switch, nearest network adapter), and which of them can be used. It knows nothing of Kubernetes.
//
// # Data flow
//
//	annotation, DRA slices, labels ... --(pkg/inventory)--+
//	nvidia-smi topo -m   --ParseMatrix--> Matrix --Spec---+--> Spec --New(rates)--> Node --> Shape
//	nvidia-smi query csv --ParseQuery---> rows -----^     |
//	product and count    --Lookup (catalogue)-------------+
//
// A Spec is a description that nobody has checked. New is the only door from a Spec to a Node: it refuses a broken
// whole (*SpecError), and closes a broken card (Card.Fault) while the rest of the node stays in service. A Node never
// changes: another description makes another Node. All types are safe for concurrent readers.
//
// # Cards and sets
//
// Cards are numbered from 0 in the order of nvidia-smi. A GPUSet holds card numbers as bits of one word, so a node
// has at most MaxCards (64) cards, and set operations cost one instruction.
//
// # Links
//
// A Link is a cell of `nvidia-smi topo -m`: NV<k>, PIX, PXB, PHB, NODE, SYS, or unknown. What no source says is never
// better than what one says: an unknown link is worse than SYS, a link whose two directions differ is the weaker
// one, a NUMA id that is not given is NUMAUnknown, and an unknown product runs at the rates of the slowest known one.
//
// # Bandwidth
//
// Rates turns a link into a Bandwidth: the rate of one direction in whole MB/s, so that sums and comparisons are
// exact. For a card whose slot carries P and whose single NVLink carries V:
//
//	NV<k>    max(k x V, P + k MB/s)
//	PIX      P
//	PXB      P x 92 %      PHB   P x 83 %
//	NODE     P x 73 %      SYS   P x 58 %
//	unknown  1 GB/s
//
// Of two cards of different products the lower figure counts. The range is 1 MB/s to 2550 TB/s (255 links of 10 TB/s);
// a card and itself have 0. With DefaultRates, for H100 (V = 20.6 GB/s, P = 48 GB/s): NV18 370.8, NV6 123.6, PIX 48.0,
// PXB 44.2, PHB 39.8, NODE 35.0, SYS 27.8, unknown 1.0 GB/s. The fields of NVLinkRates, PCIeRates and PathPercent name
// the sources.
//
// # Shape
//
// Shape holds all that decides how good a set of cards is: the bandwidth of every pair, which cards share a NUMA
// node, and how near the nearest adapter is. Its fingerprint is the SHA-256 of just that. The thousands of nodes of a
// cluster have a handful of shapes, so that the best set for a shape, free cards and a number is computed once.
package topology
