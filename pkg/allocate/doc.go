// Package allocate chooses cards: from one node's graph, what pods hold of it and a request it makes the best set of
// cards, or says why there is none. It is pure: no clock, no cluster, no state but remembered answers.
//
//	topology.Node + []CardUse + closed cards = View --+
//	                                                  +--> Chooser.Fits   -> *Rejection or nil    (every node, Filter)
//	pod -> Request{Claims, NUMA, NIC} ----------------+--> Chooser.Assess -> set, Quality         (few nodes, Score)
//	                                                  +--> Chooser.Choose -> Choice{Cards, Containers, Quality}
//	Choice.Cards -> View.CanHold -> Occupy ... Vacate                                            (the ledger)
//
// Fits, Assess and Choose agree on every input. A View and a Choice are read-only.
//
// # Order of preference
//
// Whole cards: among all sets of n free cards that the policies allow, the first of
//
//  1. the highest bottleneck of the best ring over the set, in MB/s: a ring visits each card once and returns to the
//     first, its bottleneck is its slowest pair. Ring collectives (NCCL) run at that rate. Two cards: their pair;
//     one card: 0, no ring;
//  2. the highest sum of all pairs, in MB/s;
//  3. under NUMAPrefer (the default) the fewest NUMA nodes, each card of an unknown one counting as a node for itself;
//     under NICPrefer the most cards with a network adapter at PIX or PXB;
//  4. the least damage: the largest set among the cards still free whose best ring runs at the node's fastest pair
//     bandwidth, in cards, then the highest sum of all pairs of the cards still free;
//  5. the lowest mask, the set as a binary number with card i as bit i.
//
// NUMARequire allows sets on one known NUMA node only (a single card is always one), NICRequire cards with an adapter at
// PIX or PXB only. Quality holds the numbers, Quality.Compare is the order.
//
// Worked example: four A100 PCIe cards, 0-1 and 2-3 joined by NVLink bridges of 12 links (12 x 20.0 = 240.0 GB/s), all
// other pairs SYS (58 % of 24 = 13.9 GB/s), card 1 in use.
//
//	n=1  {0} and not {2} or {3}: rings and sums are 0 for all, but 0 leaves the bridged pair {2,3}, so 2 cards remain
//	     joined by the fastest links; 2 or 3 would leave none
//	n=2  {2,3}: bottleneck 240.0 against 13.9 for {0,2} and {0,3}
//	n=3  {0,2,3}: the only set; bottleneck 13.9, sum 240.0 + 13.9 + 13.9 = 267.8
//	n=4  rejected: "needs 4 whole GPUs, 3 are free (1 used)"
//
// # Shares
//
// A share takes bytes of memory and promises thousandths of the compute on each of Count different cards. Bytes are what
// is counted, exactly; a fraction f of a card is ceil(memory x f) bytes. On one card the bytes of all holders are at most
// its memory, their compute at most 1000; a share of 1000 has the card to itself, and a share without a promise joins
// only while some compute is not promised. Cards in MIG mode or of unknown memory take no shares. The slice mask shows
// the share as floor(bytes / (memory / 64)) of 64 parts, the lowest that are free. Such masks never run out before the
// bytes do; where others have recorded more slices than their bytes fill, a share needs slices as well, and a card without
// a free one takes none.
//
// The order: the fewest cards that nobody uses yet, then 1 to 4 as for whole cards, then the least memory left over on
// the cards, then the lowest mask. So halves of cards fill cards in pairs, whatever their order of arrival.
//
// Several containers: the claim with the most bytes first, then the most compute, then the most cards. Where that leaves
// one over, up to 8 claims on up to 16 cards are arranged anew by a search of at most 5000 steps that stops at the
// first arrangement; beyond that size a pod may be rejected although some arrangement exists.
//
// # MIG
//
// An instance is of exactly the profile asked for. Instances of one claim are packed: on the fewest cards, on cards in use
// before idle ones, on the lowest slices. Claims of different containers go to different cards while there are enough,
// which is how a pod asks for instances on different cards. There is no search over sets of cards.
//
// # Containers
//
// A pod is charged what the kubelet comes to hold for it: a plain init container runs beside the sidecars declared
// before it; app containers run beside all sidecars; what an init container held is not handed back, but later containers
// may use it. For whole cards that is one number, peak = max(init + sidecars before it, ..., sidecars + app); the best
// set of that size is chosen and dealt out. For shares it is the most of any phase, card by card. Whole cards come first,
// then shares, then instances; a card held whole by one container is not shared by another, also where they do not run
// at the same time. With NUMARequire all of the pod is on one NUMA node.
//
// # Nodes of more than 16 cards
//
// Up to ExhaustiveCards cards every set is looked at. Above, a set is grown from each free card in turn, always by the card
// whose second strongest pair with the set is the strongest, and the best of the grown sets is taken. That keeps: a valid
// set whenever there is one; the best pair and the best single card exactly; a set inside one island of cards joined by
// the node's fastest pairs whenever one is large enough; the same answer for the same question. It does not promise the
// best set of other graphs. Bottlenecks are exact up to 8 cards and otherwise those of a ring that exists.
//
// # Cost
//
// All that decides about whole cards is the Shape, which thousands of nodes share. For each shape the measures of
// all sets are computed once (2^n x n^2 / 4 steps: microseconds for 8 cards, milliseconds for 16), and the answer to
// each question (free cards, n, policies) is kept: all of them up to 8 cards, the latest 2048 above. Memory for all
// shapes is bounded, see cacheBytes. Answers never depend on what is kept.
package allocate
