// Package cycle measures the scheduling cycle of a single pod alone: what a scheduler does for a pod in its own process, with no
// API server and no queue, so that a change of a few per cent in it shows. Informers and loops of the plugins run beside it, and
// have nothing to do.
//
// # What is compared
//
//	default   the default plugins of kube-scheduler alone
//	ours      the configuration that ships
//	flat      the same without NCCLTopology
//
// All run in one process, each with its own cache, engine and fake client, on the same nodes: HGX H100, 16 a leaf and 8 leaves a
// spine. They take turns every few pods, forth and back, so that a drift of the machine meets all alike.
//
// # One pass
//
//	snapshot --> SchedulePod (PreFilter, Filter, Score) --> assume --> Reserve, Permit, PreBind, Bind, PostBind --> next pod
//	all pods placed --> all of them are forgotten and released --> next pass, on an empty cluster again
//
// The figures are those of a median pass:
//
//	us/pod       CPU time of the process, user and system, while the variant had its turn (getrusage). The garbage collector is off
//	             then and runs between passes; what it would cost shows in mallocs/pod
//	refused/pod  nodes that a filter refused: who packs looks at more full nodes
//	x-default    us/pod divided by that of default in the same pass
//	x-flat       the same for flat: what it costs to know the fabric
//
// A Bind ends at the fake client: the API request itself, its retries and its record on the server are no part of it. For
// these see test/perf/outside.
//
// # Running
//
//	make bench-cycle
//	go test ./test/perf/cycle -run '^$' -bench Cycle -benchtime 6x -cycle.gpus 4 -cycle.nodes 5000 -cycle.pods 2000
//	go test ./test/perf/cycle -run '^$' -bench Cycle -benchtime 6x -cycle.variants ours -cpuprofile cpu.out
package cycle
