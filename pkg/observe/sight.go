package observe

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// What a sweep reads and mends. It holds the informers' locks for one object or one node at a time; only the names of
// nodes are listed at once.

// podIndex finds the bound pods that may hold GPUs by their node, so that a sweep need not look at all pods.
const podIndex = "gputopology.io/gpu-pods-of-node"

// nodeOfGPUPod is the index function of podIndex.
func nodeOfGPUPod(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("want a Pod, got %T", object)
	}
	if pod.Spec.NodeName == "" || Terminal(pod) {
		return nil, nil
	}
	_, recorded := pod.Annotations[v1alpha1.AllocationAnnotation]
	if cards, instances := request.FromPodForeign(pod); recorded || cards > 0 || len(instances) > 0 ||
		len(pod.Spec.ResourceClaims) > 0 || len(pod.Status.ResourceClaimStatuses) > 0 {
		return []string{pod.Spec.NodeName}, nil
	}
	return nil, nil
}

// NodeNames returns the names of the nodes in the informer's store and of those that GPU pods are bound to, in no order.
func (o *Observer) NodeNames() (stored, bound []string) {
	nodes, err := o.nodes.List(labels.Everything())
	if err != nil {
		o.logger.Error(err, "Nodes cannot be listed from the informer's store")
	}
	stored = make([]string, len(nodes))
	for i, node := range nodes {
		stored[i] = node.Name
	}
	return stored, o.podStore.ListIndexFuncValues(podIndex)
}

// Node returns the node from the informer's store, nil if it has none of that name.
func (o *Observer) Node(name string) *v1.Node {
	node, err := o.nodes.Get(name)
	if err != nil {
		return nil
	}
	return node
}

// GPUPods returns the living pods on a node that may hold GPUs, in no order.
func (o *Observer) GPUPods(node string) []*v1.Pod {
	objects, err := o.podStore.ByIndex(podIndex, node)
	if err != nil {
		o.logger.Error(err, "Pods cannot be read from the informer's store", "node", node)
		return nil
	}
	pods := make([]*v1.Pod, 0, len(objects))
	for _, object := range objects {
		if pod, ok := object.(*v1.Pod); ok {
			pods = append(pods, pod)
		}
	}
	return pods
}

// Living returns a pod by "namespace/name" and UID from the informer's store: nil if it is not there, its name belongs to
// another pod, or it has ended.
func (o *Observer) Living(name string, uid ledger.PodUID) *v1.Pod {
	object, found, err := o.podStore.GetByKey(name)
	if err != nil || !found {
		return nil
	}
	pod, ok := object.(*v1.Pod)
	if !ok || ledger.PodUID(pod.UID) != uid || Terminal(pod) {
		return nil
	}
	return pod
}

// Charge returns what a bound pod holds by what the API shows now; false for a pod without GPUs. It reports nothing.
func (o *Observer) Charge(pod *v1.Pod) (ledger.Holding, bool) {
	h, held, _ := o.charge(pod)
	return h, held
}

// printSeed makes prints; they mean nothing outside this process.
var printSeed = maphash.MakeSeed()

// Print returns a number that changes with everything that Charge depends on: the versions of the pod and of its claims.
// 0 says that it is not known, and is no reason to take two pods for equal.
func (o *Observer) Print(pod *v1.Pod) uint64 {
	if pod.ResourceVersion == "" {
		return 0
	}
	sum := maphash.String(printSeed, pod.ResourceVersion)
	if len(pod.Spec.ResourceClaims) == 0 && len(pod.Status.ResourceClaimStatuses) == 0 || o.claims == nil {
		return sum
	}
	var all maphash.Hash
	all.SetSeed(printSeed)
	for _, name := range claimNames(pod) {
		version := ""
		if claim, err := o.claims.ResourceClaims(pod.Namespace).Get(name); err == nil {
			version = string(claim.UID) + "/" + claim.ResourceVersion
		}
		maphash.WriteComparable(&all, version)
	}
	maphash.WriteComparable(&all, o.mayOfferDRA(pod.Spec.NodeName))
	return maphash.Bytes(printSeed, binary.LittleEndian.AppendUint64(nil, sum^all.Sum64()))
}

// Reread brings the ledger in line with a node as it is now, also where only time has passed, and returns what the ledger
// said of it before and says after. It reports a quarantine that is new.
func (o *Observer) Reread(name string) (before, after *ledger.NodeGPUAllocation) {
	before = o.ledger.Node(ledger.NodeName(name))
	o.NodeChanged(name)
	o.noteQuarantine(name)
	return before, o.ledger.Node(ledger.NodeName(name))
}

// Recharge brings the ledger in line with a bound pod whose holding is out of date. The cards that the ledger has for it
// stay where the pod is where the ledger has it, whatever its record says by now.
func (o *Observer) Recharge(pod *v1.Pod) {
	if held, _, known := o.ledger.Holding(ledger.PodUID(pod.UID)); known && string(held.Node) != pod.Spec.NodeName {
		o.PodSeen(pod)
		return
	}
	o.chargeClaims(pod)
}

// Restore charges a bound pod that the ledger took for gone. It reports whether that was needed and done.
func (o *Observer) Restore(pod *v1.Pod) bool {
	h, held := o.holdingOf(pod)
	if !held || !o.ledger.Released(h.UID) {
		return false
	}
	err := o.ledger.Restore(h)
	o.adopted(pod, err)
	o.noteRunning(pod)
	return err == nil
}

// Gone ends what a pod holds that Living does not return, by "namespace/name".
func (o *Observer) Gone(name string, uid ledger.PodUID, node ledger.NodeName) {
	o.forgetFault(uid)
	if namespace, short, ok := strings.Cut(name, "/"); ok {
		o.settlePod(namespace, short, uid)
	} else {
		o.logger.Error(nil, "Holding without a pod's name is dropped", "uid", uid, "pod", klog.KRef("", name))
		o.letGo(uid)
	}
	o.noteQuarantine(string(node))
}

// relistHandler tells of deletes that were missed.
type relistHandler struct {
	cache.ResourceEventHandler
	relisted func()
}

// OnDelete implements cache.ResourceEventHandler.
func (h relistHandler) OnDelete(event any) {
	h.ResourceEventHandler.OnDelete(event)
	if _, missed := event.(cache.DeletedFinalStateUnknown); missed && h.relisted != nil {
		h.relisted()
	}
}
