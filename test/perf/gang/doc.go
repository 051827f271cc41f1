// Package gang measures gangs with scheduler_perf, the benchmark suite of kube-scheduler. It has no product code.
//
// # Cases
//
// performance-config.yaml has the same pods four times, so that every figure has its twin in the same run:
//
//	CRD       our plugins with the configuration that ships; PodGroups of scheduling.x-k8s.io/v1alpha1
//	Native    our plugins with the configuration that ships; PodGroups of scheduling.k8s.io/v1beta1, gate GenericWorkload
//	NoGangs   the default scheduler; the same pods, each for itself
//	InTree    the default scheduler with its own gang plugin; PodGroups of scheduling.k8s.io/v1beta1, gate GenericWorkload
//
// each in these sizes, on nodes of 8 GPUs:
//
//	32Nodes_8Gangs          4 pods of 4 GPUs a gang; label short, a few seconds, for continuous integration
//	512Nodes_125Gangs       8 pods of 4 GPUs a gang
//	5000Nodes_100Gangs      30 pods of 8 GPUs a gang
//	5000Nodes_3Gangs        1000 pods of 8 GPUs a gang
//
// # Flow of a workload
//
//	PreRunFn   a fresh engine: the scheduler's plugins share it, two workloads do not
//	           etcd, kube-apiserver and the scheduler start, all but etcd in this process
//	PrepareFn  the PodGroup CRD is installed and served
//	ops        nodes, groups, then pods: throughput counts from the first pod's creation
//
// # Running
//
//	make bench-perf                            the short sizes
//	make bench-perf PERF_LABELS=performance    the others, on a machine that does nothing else
//
// or one case by hand, with etcd from `make bin/etcd` in PATH and the flags of the Makefile:
//
//	CGO_ENABLED=0 go test -vet=off -run '^$' -bench '/^CRD$/^512Nodes_125Gangs$' -benchtime=1x -timeout 60m \
//	  ./test/perf/gang -perf-scheduling-label-filter=performance -data-items-dir=DIR
//
// SchedulingThroughput/Average (pods/s) is the figure to compare; a workload that takes less than about two seconds has
// none, only SchedulingDuration. CPU cannot be told apart here, since the API server shares the process: test/perf/outside
// measures it, with each program in a process of its own.
package gang
