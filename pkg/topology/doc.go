// Package topology describes two graphs. A Node is the GPUs of one node: which cards there are, how each pair is
// joined, where they sit (NUMA node, PCIe switch, nearest network adapter), and which of them can be used. A Fabric is
// the network between the nodes: which of them share an NVLink domain, a leaf switch, a spine and so on. It knows
// nothing of Kubernetes but the keys of labels.
//
// # Data flow of a node
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
//
// # Data flow of the fabric
//
//	labels of a node --SetNode--+                           +--> positions
//	labels of a node --SetNode--+--> FabricBuilder --Fabric-+--> domains of each Level
//	node is gone --RemoveNode---+         ^                 +--> problems
//	DefaultLevels, or configured levels --+
//
// Levels go from narrow to wide: host, nvlink, leaf, spine, core, zone, region, cluster. For each of them the vocabulary
// lists label keys, and the first one that a node carries with a value names the node's domain. A key serves one level
// of a node, the narrowest first: the labels of EKS, whose layer 3 is the closest switch on machines with three layers
// and the second on machines with four, become leaf, spine and core on both.
//
// The place of a node is its list of names from wide to narrow, its own name last; nodes in the order of their places
// have their positions. Two nodes share a domain of a level if their places are equal down to that level, so that every
// domain of every level is a range of positions, and the ranges of a level lie inside those of the next wider one.
//
// What labels do not say is never taken for the best:
//
//   - A node without a label at a level is there exactly as narrow as at the next narrower level. Without a leaf it is
//     alone; a leaf without a spine is a spine of its own. Such domains are Unknown. No two nodes ever share a domain
//     for the lack of a label.
//   - A name under two different wider names (one leaf under two spines, racks that are numbered anew in each zone, a
//     leaf of which one node lacks the spine) is two domains and a FabricProblem.
//   - The value of nvidia.com/gpu.clique counts whole: GPUs of one rack in different cliques do not reach each other by
//     NVLink. An all-zero cluster UUID is no value.
//   - A value that no label can have is no value, and a FabricProblem.
//   - A level that no node has a label of says nothing about the cluster: Known is false, and its domains are those of
//     the next narrower level.
//
// For example, with labels that name a leaf and a spine:
//
//	node  leaf  spine     position  leaf             spine
//	n1    l1    s1        1         l1 [1,3)         s1 [1,4)
//	n2    l1    s1        2         l1 [1,3)         s1 [1,4)
//	n3          s1        3         n3 alone [3,4)   s1 [1,4)
//	n4    l9              0         l9 [0,1)         unknown, holds l9 [0,1)
package topology
