// Command report turns what benchmarks wrote into docs/benchmarks.md. It computes medians and ratios and nothing else: every figure
// of the document is in a file that a run wrote.
//
//	report collect --raw DIR --scope SCOPE --commit COMMIT --command COMMAND --out FILE
//	    reads scheduler_perf's files in DIR, one for each round, and writes a results.Run
//	report table --runs DIR --data docs/benchmarks.json --document docs/benchmarks.md
//	    takes the runs in DIR into the data, in place of older runs of the same scope, and writes the tables into the
//	    document, between its two markers
//
// The data is committed with the document; a test holds that the tables follow from it.
//
//	make bench-scheduler    runs scheduler_perf and collects
//	make bench-gang         runs test/perf/outside, which writes a results.Run itself
//	make bench-report       writes the tables
package main
