// Package simulate runs the scheduler against clusters that do not exist: a real API server and the real scheduler
// binary, each a process of its own, with simulated nodes. It is what `kubectl gputopo demo` and `kubectl gputopo bench`
// call. It links no part of the scheduler and none of kube-apiserver.
//
//	machines.go   machine shapes -> topology, Node objects          what the cluster is made of
//	workload.go   what is asked -> Pod objects and oracle.Ask       what runs on it
//	shipped.go    manifests/base -> API objects, scheduler configuration derived for a process
//	cluster.go    bin/local-control-plane, bin/kwok, bin/gpu-topology-scheduler -> running, watched, stopped
//	pods.go       a pod is created -> the scheduler's decision, the record
//	demo.go       one pod after another -> placements, compared with package oracle; review.go looks again at the end
//	gangs.go      a gang -> PodGroup and Pod objects; bound pods -> their seats, compared with package oracle
//	gangact.go    more gangs than fit, until one ends; witness.go follows their pods from event to event
//	fabric.go     labels of leaves and spines; seats -> the layout that the PodGroup must have, the ring through the gang
//	bench.go      many pods at once, with our plugins and without -> pods a second
//	screen.go, board.go, table.go, gangtable.go, fabrictable.go     what the user sees
//
// # Processes
//
//	Start --> control plane --> objects of manifests/base, PodGroup API, nodes --> KWOK --> scheduler --> pods
//	             |
//	any process ends by itself --> the Cluster's context ends, the cause names it and quotes the end of its log
//	Close --> scheduler, KWOK, control plane stop in this order; the temporary directory is removed
//
// The scheduler runs under the service account that ships, with a token of the TokenRequest API, and with the
// configuration that ships; only the kubeconfig is filled in, since it does not run in a pod.
//
// # What the demo checks
//
// Each pod is created when the one before it is bound, so that what was free is known. The pod's record is then
// compared with a brute force over all cards of all nodes (package oracle), which also refuses a card that is sold
// twice. A pod that no node can hold must stay Pending with a reason that says what is missing. One difference fails
// the demo.
//
// Then three gangs are created of which two fit, a pod of each in turn. These must hold:
//
//	always          no card is held twice, in the order in which the API server made the changes; no pod is lost
//	at rest         as many gangs run whole as fit; no pod of another has a node, a nomination or a record
//	a whole gang    its records name the gang, one plan and every rank once; the ranks on a node are contiguous; member by
//	                member in the order of ranks, its cards are those of the brute force; it is below one leaf if one has
//	                room for it, the ranks below a leaf are contiguous, and the layout on its PodGroup is that of its pods
//	a waiting gang  its PodGroup says how many pods find a place and how many GPUs are free, and so does every pod
//	PodGroups       phase and counts are those of the pods
//
// When all this holds the pods of one gang end. It must then hold again, with the third gang in its place.
package simulate
