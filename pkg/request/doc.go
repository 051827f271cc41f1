// Package request reads what a pod asks for. It is the only place that knows how users spell a wish for GPUs.
//
//	v1.Pod --FromPod--> *allocate.Request   claims of every container, in the order in which containers start
//	       |            nil, nil            the pod asks for no GPU
//	       |            *InvalidError       the wish cannot be understood: the pod must not be placed
//	       +-FromPodForeign--> counts       what a bound pod must be charged for when nothing says which cards it holds
//
// # Dialects
//
// Each dialect has a file of its own and turns one container into claims; reader.go puts them together.
//
//	whole.go   nvidia.com/gpu: n                            n whole cards
//	native.go  gputopology.io/vram: bytes                   that memory on one card, or
//	           annotation gputopology.io/vram-cards: k      on each of k cards, with
//	           annotation gputopology.io/compute-milli: m   m thousandths of each card's compute
//	hami.go    nvidia.com/gpumem: MiB                       that memory on each of nvidia.com/gpu cards (1 if absent)
//	           nvidia.com/gpumem-percentage: p              p percent of the memory of each
//	           nvidia.com/gpucores: p                       p percent of the compute of each; alone: with all the memory
//	kai.go     annotation gpu-fraction: 0.5                 that part of the memory of one card
//	           annotation gpu-memory: MiB                   that memory on one card, or
//	           annotation gpu-fraction-num-devices: k       on each of k cards; for the first app container, or
//	           annotation gpu-fraction-container-name: c    for container c
//	mig.go     nvidia.com/mig-<profile>: n                  n instances of the profile
//
// MIG instances are wanted beside anything else. The others are descriptions of one wish: where two of them stand on
// one container, they must say the same, else the pod is refused with both named. The annotations of kai.go describe
// the whole pod, so beside them no other container may ask for a GPU.
//
// policy.go reads gputopology.io/numa-policy and gputopology.io/nic-proximity.
//
// # Numbers
//
// Amounts are exact: quantities and decimals are never turned into floating point. Limits and requests are both read;
// for extended resources the API server keeps them equal, and a pod where they differ is refused.
//
//   - Zero and the empty string mean "no GPU". A nonzero wish never becomes zero.
//   - Memory is counted in whole MiB, as node agents do, and rounded up: 1500m bytes are 1 MiB, 0.5 MiB is 1 MiB,
//     1500m MiB are 2 MiB. Above topology.MaxVRAMBytes it is refused: no card has that much, and the sums stay exact.
//   - gpu-fraction is a plain decimal from 0 to 1 ("0.5", no sign, exponent or blank) of at most 64 characters. It counts
//     in parts per billion, further digits are cut, but not to 0: three pods of 0.3333333333 share a card. 1 is a whole card.
//   - Counts and percentages are whole numbers. Counts go up to the 64 cards, or 512 MIG instances, of the largest node.
//
// Overhead, pod-level resources and ephemeral containers cannot ask for extended resources and are not read.
package request
