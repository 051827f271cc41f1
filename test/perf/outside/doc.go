// Command outside measures how fast gangs are scheduled and what that costs, with each program in a process of its own:
// the API server, with etcd, is bin/local-control-plane; the scheduler is bin/gpu-topology-scheduler; this program
// creates the objects and watches. So the CPU time of a scheduler is that of its process, which scheduler_perf
// (test/perf/scheduler) cannot tell.
//
// # What is compared
//
//	no-decision   no scheduler: a process that binds every pod it sees to the next free node. What the API server allows.
//	default       our binary with the default plugins alone: the scheduler that Kubernetes ships. Pods without gangs. Both this
//	              and in-tree collect garbage when the heap has doubled (GOGC=100), as kube-scheduler does.
//	in-tree       the same with gate GenericWorkload: its own gang plugin. PodGroups of scheduling.k8s.io/v1beta1.
//	crd           our plugins, the configuration that ships. PodGroups of scheduling.x-k8s.io/v1alpha1.
//	crd-flat      the same without NCCLTopology: gangs are planned as if all nodes were equally far from each other.
//	singles       our plugins, the configuration that ships. Pods without gangs.
//	singles-flat  the same without NCCLTopology.
//	native        our plugins, the configuration that ships, gate GenericWorkload. PodGroups of scheduling.k8s.io/v1beta1.
//
// All run under the service account that ships, with the client limits of the configuration that ships, on the same
// nodes, which are labelled with a fabric of 16 nodes a leaf and 8 leaves a spine. The API server has the gate
// GenericWorkload throughout.
//
// # One round
//
// The scheduler starts, with its informers in sync, and waits for the lease that this program holds:
//
//	CPU times --> groups --> pods, 30 at a time --> the scheduler is idle: all are in its queue
//	  --> the lease is given up; the scheduler has it: clock --> last pod bound: clock
//	  --> the scheduler is idle again: CPU times
//	  --> what was decided is checked --> scheduler stopped, pods and groups deleted
//
// That is --mode backlog. With --mode arrival the scheduler leads from the start, a pod of 1 GPU has come and gone, and the
// clock starts with the first creation, as in scheduler_perf: creations then take their part of the machine and of the API
// server. The CPU time of the scheduler is for the same work in both.
//
// Every variant runs once before any runs again, forth and back (A B C, C B A, ...), so that a drift of the machine meets
// all alike; the median over the rounds is what is published.
//
//	pods/s       pods divided by the seconds between the clocks
//	CPU          seconds of user and system time, from /proc, per 1000 pods: everything the process did for them,
//	             events and status that follow the binds included; it needs Linux
//	writes       requests that change something, by the API server's own count; the JSON has them by verb, resource and,
//	             where they were refused, code. A 429 costs its client a second: the API server was asked for too much
//	             at once
//	x default    the figure divided by that of "default" in the same run: the one to quote
//	of flat      pods/s divided by that of "crd-flat" or "singles-flat" in the same run: what it costs to know the fabric
//	leaves/gang  leaves that hold pods of a gang, the mean over all gangs; spines/gang alike. "default" and "singles" know no
//	             gangs: there it is the pods that are a gang elsewhere
//
// # What is checked
//
// Every pod is bound and no node holds more GPUs than it has. With our plugins every pod also has its record, no card
// is sold twice (package oracle), and each record names the pod's gang: otherwise the run measured something else.
//
// # Running
//
//	make bench-gang                                     512 nodes, a few minutes
//	make bench-gang BENCH_SIZE=5000Nodes_100Gangs       or 5000Nodes_3Gangs, 256Nodes_60Gangs
//	make bench-gang BENCH_MODE=arrival
//	make bench-gang BENCH_VARIANTS=crd,crd-flat,singles,singles-flat
//	go run ./test/perf/outside --binaries bin --size 512Nodes_125Gangs --variants default,crd --rounds 5 --out bench.json
//
// --gates switches further gates of the schedulers with our plugins, to see what each costs. --profiles keeps a CPU profile
// of every round's scheduler, which costs some of its speed. --min-rate and --max-cpu fail the run where crd misses them,
// --min-of-flat where crd or singles does.
//
// # Scale
//
// The first argument scale measures something else: what it costs that a cluster is large. There are two, one after the other,
// each with bound pods that have their record, as if a scheduler had run for long, and pods of 1 GPU that wait, of no gang or, for
// crd, in gangs of 8:
//
//	nodes (10000, 1000) --> 2 running pods each --> rounds: default, crd, singles, singles, crd, default, ...
//	  one start: pods wait, nobody has the lease
//	             process starts: clock --> in sync: clock, memory --> first bind: clock --> last bind: clock
//	             --> idle: memory, CPU time --> what was decided is checked, running pods included --> pods deleted
//	  one failover, in the large cluster: a leader and a replica in sync
//	             half of the pods --> kill -9 --> the other half --> the replica has the lease --> its first bind
//
//	first bind    seconds from sync to the first bind. Our scheduler reads all bound pods from the API server in between
//	ms/pod        from the first bind to the last, divided by the pods between; growth is its quotient of the two clusters.
//	              2800 pods take some seconds: less would measure the garbage that listing the cluster has left in the programs, and
//	              more would not fit beside 1000 nodes
//	memory        VmRSS and VmHWM of the process, x default in the same cluster
//	election      seconds from the kill until the Lease names the replica as its holder: the duration of the lease that ships,
//	              and up to a retry
//	lead to bind  seconds from there, by acquireTime, to the first bind that follows
//
//	make bench-scale                                    a quarter of an hour
//	make bench-scale BENCH_NODES=1000 BENCH_SMALL_NODES=700 BENCH_ROUNDS=1
//
// The machine must do nothing else: five processes share it as it is.
package main
