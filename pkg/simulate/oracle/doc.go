// Package oracle says, by looking at every possibility, whether the scheduler placed a pod as well as it could. It is
// for checks of small clusters: it shares no code with the search of package allocate and is far slower.
//
//	records of the pods bound before --Place--> who holds what; Remove takes it back
//	Ask + candidate nodes            --Fitting-> nodes that could hold the pod now
//	Ask + candidate nodes + record   --Judge---> nil, or a *Fault that names the better answer
//
// # What is best on a node
//
// Of all sets of cards that can meet the ask, the first by these measures, each asked only where those before it tie:
//
//	1 broken     cards that nobody used and that the pod takes in part: fewer
//	2 ring       slowest pair of the fastest ring through all cards: more (2 cards: their pair; 1 card: no ring, 0)
//	3 pairs      sum over all pairs: more
//	4 numa       NUMA nodes, every card of an unknown one counted for itself: fewer
//	5 fast       most cards, among those then still free, with a ring at the machine's fastest pair rate: more
//	6 left       sum over all pairs of the cards then still free: more
//	7 spare      bytes left over on the cards taken in part: fewer
//	8 mask       bit mask of the cards: lower
//
// Rings are found by trying every order of the cards, sets by trying every mask.
//
// Example: eight V100 of a DGX-1, all free, two asked. Cards 1 and 2 are joined by two NVLinks (40 GB/s), 0 and 1 by
// one (20 GB/s): {0,1} is a fault. {0,3} is as fast as {1,2} and leaves as much, but its mask is higher (9, not 6).
//
// # What is best in the cluster
//
// A pod that takes whole cards belongs on a node whose best set has a ring as fast as that of any candidate node. A
// pod that takes parts of cards belongs on a node where it breaks no more cards than elsewhere.
//
// # MIG
//
// A MIG ask must get instances of exactly its profile that nobody held: on the fewest cards, then on the fewest cards
// that nobody used, then the lowest cards and slices.
//
// # Never sold twice
//
// Place refuses a record that overlaps another: a whole card with anything else, MIG instances with common slices,
// shares whose memory, compute or slices add up to more than the card.
package oracle
