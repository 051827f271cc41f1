// Command gate reads what `benchstat -format csv BASE HEAD` printed from its standard input and fails where HEAD is worse:
//
//	allocs/op    more than 1.10 times those of BASE
//	sec/op       more than 1.25 times those of BASE
//
// each where benchstat calls the difference significant: by the Mann-Whitney test over the repeated measurements a difference as
// large would come from noise alone in less than one of twenty comparisons. With fewer than four measurements of each nothing is
// significant. A benchmark that only one side has is listed and fails nothing.
//
//	make bench-check BASE=COMMIT
//
// runs both commits in turn in one run (hack/bench-check.sh), so that what else the machine does meets both.
package main
