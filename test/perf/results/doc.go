// Package results is what a benchmark run leaves behind: which workload was run by which variant, the medians of its figures,
// and what they were measured on. test/perf/report turns scheduler_perf's files into it, test/perf/outside writes it itself, and
// docs/benchmarks.md is generated from it.
//
//	scheduler_perf's JSON --report collect--> Run
//	test/perf/outside -----------------------> Run --report table--> docs/benchmarks.json, docs/benchmarks.md
//
// A figure that a run did not have is absent, never zero.
package results
