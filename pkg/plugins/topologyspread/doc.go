// Package topologyspread is the PodTopologySpreadTuned plugin: topology spread constraints with the verdicts and scores of the
// in-tree PodTopologySpread, from counts that are kept between cycles (package spread), and a sense for gangs and GPUs.
//
//	PreFilter   hard constraints -> key -> spread.Cache -> Counts      filterState (CycleState)
//	AddPod, RemovePod  a dry run's pods   -> spread.Trial              a clone of it
//	Filter      count of the domain + pod - lowest count > maxSkew     refused
//	PreScore    soft constraints -> key -> spread.Cache -> Scores      scoreState (CycleState)
//	Score, NormalizeScore                                              0 to 100
//
// The scheduler's snapshot gives every state of every node a number, its generation. A cycle compares the numbers of all nodes
// with those of the last cycle, and reads the pods of the nodes whose number is another one. (The cycle of a native pod group
// leaves the numbers as they are where it puts members on nodes: there the plugin gives its own, groupStates.) One cache serves
// all profiles: it is made with the factory, since nothing but this plugin uses it.
//
// # What the arguments add
//
// gangAware, for a pod whose PodGroup is a gang (package book):
//
//   - Soft constraints on the level of the gang's planned domain, or on a narrower one, are left out of the score. The planned
//     domain is the narrowest one that holds every member with a node, bound or planned; the required level if that is wider.
//   - Hard constraints on the levels zone and region count gangs: every gang with a matching pod in a domain is one there, a
//     matching pod without a group is one, and the pod's own gang counts as if none of it were placed yet.
//   - Before the gang has a plan, a hard constraint by which no domain of the required level can hold it (contradiction) refuses
//     it with a sentence that names both.
//
// ignoreNonGPUNodes, for a pod that asks for GPUs: a node without the cards that it asks for gives its domain no standing, so that
// a rack of CPU nodes is no empty rack that keeps the minimum at 0. Its pods count as ever.
//
// The framework's own one-node cycles make the soft part moot for planned members: they have one node. It matters for members that
// come later, and for gangs that Coscheduling does not plan.
package topologyspread
