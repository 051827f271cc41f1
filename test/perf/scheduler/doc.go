// Package scheduler measures with scheduler_perf, the benchmark suite of kube-scheduler. It has no product code.
//
// # Cases
//
// performance-config.yaml and performance-config-spread.yaml have cases that are named WORKLOAD_VARIANT, so that every figure has
// its twin in the same run. The pods of all variants of a workload are the same, but for how they name their gang.
//
//	Seed             512 nodes, 1000 pods of 4 GPUs
//	Gang             gangs of 8, 30 and 1000 pods; nodes that say nothing of the network
//	Fabric           gangs that must stand below one leaf
//	SpreadHard       pods with a zone constraint DoNotSchedule; SpreadSoft: ScheduleAnyway
//	SpreadDefault    pods of a Service, with the constraints that the scheduler has by default
//	SpreadInclusion  a host constraint that leaves out tainted nodes
//	Mixed            gangs of GPU pods among pods without GPUs
//	Churn            while nodes, pods that fit nowhere and PodGroups come and go
//	Backlog          while pods wait that fit nowhere; the size of the same name with 0Waiting is the same without them
//
//	Ours     our plugins with the configuration that ships; gangs are PodGroups of scheduling.x-k8s.io/v1alpha1
//	Singles  the same; the pods of Ours, each for itself
//	Native   the same; gangs are PodGroups of scheduling.k8s.io/v1beta1, gate GenericWorkload
//	Gangs    the same; the pods that wait are gangs, those that are measured are not
//	Tuned    the default plugins, with PodTopologySpreadTuned in place of PodTopologySpread
//	NoGangs  the default plugins; the pods of Ours, each for itself
//	InTree   the default plugins, with their own gang plugin where the pods of Ours are gangs: what Ours is compared with
//
// In the workload Seed, InTree has no gangs either: everything of ours is compared with the default scheduler as it is.
//
// # Flow of a workload
//
//	PreRunFn      a fresh engine: the scheduler's plugins share it, two workloads do not
//	              etcd, kube-apiserver and the scheduler start, all but etcd in this process
//	PrepareFn     the PodGroup CRD is installed and served
//	ops           nodes, groups, other pods
//	NodeUpdateFn  after each createNodes: the scheduler's metrics begin anew
//	last op       the pods that are measured: throughput counts from the first one's creation
//
// # Running
//
//	make bench-scheduler                     all workloads in their small size, 3 rounds
//	make bench-scheduler BENCH_SUITE=Seed    those whose case matches the regular expression
//	make bench-scheduler-full                the full sizes, on a machine that does nothing else
//	make bench-report                        docs/benchmarks.md from what the runs wrote
//
// hack/bench-scheduler.sh runs every case in a process of its own, forth and back in turn (A B C, C B A, ...), so that neither a
// drift of the machine nor the heap of the case before favours a variant. One case by hand, with etcd from `make bin/etcd` in PATH:
//
//	CGO_ENABLED=0 go test -vet=off -run '^$' -bench 'Scheduling$/^Gang_Ours$/^512Nodes_125Gangs$' -benchtime=1x -timeout 60m \
//	  ./test/perf/scheduler -perf-scheduling-label-filter=performance -data-items-dir=DIR
//
// # Figures
//
// SchedulingThroughput/Average (pods/s) is the figure to compare; a workload that takes less than about two seconds has none.
// SchedulingDuration is exact to a second, since scheduler_perf looks once a second whether all pods are bound. CPU cannot be told
// apart here, since the API server shares the process: test/perf/outside measures it, with each program in a process of its own.
package scheduler
