package observe

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"iter"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// What a sweep reads and mends. It locks the informers' stores for one object or one bucket at a time, which takes
// microseconds, whatever the size of the cluster.

const (
	// nodeIndex and podIndex spread the nodes, and the bound pods that may hold GPUs, over buckets.
	nodeIndex = "gputopology.io/bucket-of-node"
	podIndex  = "gputopology.io/bucket-of-gpu-pod"
	// buckets is the number of buckets of an index: 40 of 10,000 nodes, 200 of 50,000 pods are in one.
	buckets = 256
)

var (
	// seed makes hashes that mean nothing outside this process.
	seed = maphash.MakeSeed()
	// bucketNames are the values of the indices.
	bucketNames = func() (names [buckets]string) {
		for i := range names {
			names[i] = strconv.Itoa(i)
		}
		return names
	}()
)

func bucketOf(name string) []string {
	at := maphash.String(seed, name) % buckets
	return bucketNames[at : at+1 : at+1]
}

// bucketOfNode is the index function of nodeIndex.
func bucketOfNode(object any) ([]string, error) {
	node, ok := object.(*v1.Node)
	if !ok {
		return nil, fmt.Errorf("want a Node, got %T", object)
	}
	return bucketOf(node.Name), nil
}

// bucketOfGPUPod is the index function of podIndex.
func bucketOfGPUPod(object any) ([]string, error) {
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("want a Pod, got %T", object)
	}
	if pod.Spec.NodeName == "" || Terminal(pod) {
		return nil, nil
	}
	if !mayHold(pod) {
		return nil, nil
	}
	return bucketOf(string(pod.UID)), nil
}

// mayHold reports whether a pod may hold GPUs. It is asked for every change of every pod: what is dear comes last.
func mayHold(pod *v1.Pod) bool {
	if _, recorded := pod.Annotations[v1alpha1.AllocationAnnotation]; recorded || claims(pod) {
		return true
	}
	return request.TakesCards(pod)
}

// claims reports whether a pod has ResourceClaims.
func claims(pod *v1.Pod) bool {
	return len(pod.Spec.ResourceClaims) > 0 || len(pod.Status.ResourceClaimStatuses) > 0
}

// indexed yields the objects of a store, bucket by bucket.
func indexed[T any](o *Observer, store cache.Indexer, index string) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, bucket := range &bucketNames {
			objects, err := store.ByIndex(index, bucket)
			if err != nil {
				o.logger.Error(err, "Objects cannot be read from the informer's store", "index", index)
				return
			}
			for _, object := range objects {
				if is, ok := object.(T); ok && !yield(is) {
					return
				}
			}
		}
	}
}

// Nodes yields the nodes of the informer's store, in no order.
func (o *Observer) Nodes() iter.Seq[*v1.Node] { return indexed[*v1.Node](o, o.nodeStore, nodeIndex) }

// GPUPods yields the living bound pods of the informer's store that may hold GPUs, in no order.
func (o *Observer) GPUPods() iter.Seq[*v1.Pod] { return indexed[*v1.Pod](o, o.podStore, podIndex) }

// Node returns the node from the informer's store, nil if it has none of that name.
func (o *Observer) Node(name string) *v1.Node {
	node, err := o.nodes.Get(name)
	if err != nil {
		return nil
	}
	return node
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
	h, held, _ := o.charge(pod) //nolint:errcheck // a fault is no obstacle: it says why the charge is what it is
	return h, held
}

// Print returns a number that changes with everything that Charge depends on: the versions of the pod and of its claims.
// 0 says that it is not known, and is no reason to take two pods for equal. lasting says that it is the object's for good,
// and need not be asked for again.
func (o *Observer) Print(pod *v1.Pod) (number uint64, lasting bool) {
	if pod.ResourceVersion == "" {
		return 0, false
	}
	sum := maphash.String(seed, pod.ResourceVersion)
	if !claims(pod) || o.claims == nil {
		return sum, true
	}
	var all maphash.Hash
	all.SetSeed(seed)
	for _, name := range claimNames(pod) {
		version := ""
		if claim, err := o.claims.ResourceClaims(pod.Namespace).Get(name); err == nil {
			version = string(claim.UID) + "/" + claim.ResourceVersion
		}
		maphash.WriteComparable(&all, version)
	}
	maphash.WriteComparable(&all, o.mayOfferDRA(pod.Spec.NodeName))
	return maphash.Bytes(seed, binary.LittleEndian.AppendUint64(nil, sum^all.Sum64())), false
}

// Reread brings the ledger in line with a node as it is now, also where only time has passed, and returns what the ledger
// said of it before and says after. It reports a quarantine that is new.
func (o *Observer) Reread(name string) (before, after *ledger.NodeGPUAllocation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before = o.ledger.Node(ledger.NodeName(name))
	after = before
	if o.readNode(name) {
		after = o.ledger.Node(ledger.NodeName(name))
	}
	o.noteContradiction(name, after)
	return before, after
}

// RereadSeen is Reread for a node that Nodes has yielded, in less time where the ledger has heard of it as it is there.
func (o *Observer) RereadSeen(node *v1.Node) (before, after *ledger.NodeGPUAllocation) {
	o.mu.Lock()
	if !o.inventory.Current(node, o.slicesOf(node.Name), o.clock.Now()) {
		o.mu.Unlock()
		return o.Reread(node.Name)
	}
	defer o.mu.Unlock()
	after = o.ledger.Node(ledger.NodeName(node.Name))
	o.noteContradiction(node.Name, after)
	return after, after
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
	if !held || !o.ledger.Released(h.UID) || o.Outlived(pod) {
		return false
	}
	err := o.ledger.Restore(h)
	if err == nil {
		o.forgetEnd(h.UID)
		o.cooled(h.UID) // the pod itself holds them again
	}
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
