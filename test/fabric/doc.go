// Package fabric measures where gangs land in a real network, and replays reported faults of topology-aware placement
// against the planner.
//
//	hosts and switches of a production Clos network --+
//	gang sizes, runtimes, arrivals (seeded) ----------+-> queue -> scheduler: ours | in-tree | random -> nodes of each gang
//	                                                       |                                              |
//	                                                       +-> fewest leaves at that moment --------------+-> table
//
// `go test ./test/fabric -v` prints the table; see TestLingjunReplay for what its columns mean. Nothing in it reads a clock:
// time is simulated, and a seed gives the same numbers on every machine.
//
// # What is simulated
//
// Every host has 8 GPUs and 8 NICs, and every pod asks for all 8 GPUs. Gangs start whole or wait. They are tried in the
// order of their arrival, each time a gang ends, and one that does not fit is passed over. So whether a gang fits is the
// same question for all schedulers: are enough hosts free? Where runtimes do not depend on the placement, all start the
// same gangs at the same moments, and the schedulers differ only in which hosts they take.
//
// # What judges
//
// Domains are read from the trace and not from topology.Fabric. The fewest leaves are found without the planner: of the
// narrowest level that has a domain with enough free hosts, the domain in which the fewest leaves, taken from the one
// with the most free hosts on, hold the gang.
package fabric
