// Package testkit builds the nodes and pods that tests speak of, so that a test shows only what it is about.
//
//	N8s  8 cards of 81920 MiB, NVSwitch (every pair NVLink), NUMA 0 = cards 0-3, NUMA 1 = cards 4-7
//	N8p  8 cards of 81920 MiB, NVLink only in pairs (0,1) (2,3) (4,5) (6,7), same NUMA node PCIe, others SYS
//	N2   2 cards of 24576 MiB, PCIe only, NUMA 0
//	N1   1 card of 24576 MiB, NUMA 0
//	N8m  8 cards of 81920 MiB in MIG mode, 7 instances of 1g.10gb each
//
// It is for tests and benchmarks only; nothing that users install links it.
package testkit
