package observe

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// CoolingPrefix begins the UID under which the ledger holds the cards of a pod that is gone while its containers may
// still run; the pod's UID follows. It stands before the pod's name there too.
const CoolingPrefix = "cooling/"

// Cooling reports whether a holding of the ledger is not a pod's but that of cards that cool down after one.
func Cooling(uid ledger.PodUID) bool { return strings.HasPrefix(string(uid), CoolingPrefix) }

// cooling holds cards back after a forced delete: the object is gone at once, the containers run on until the kubelet
// notices. A pod that ends in order is seen to terminate, or to have succeeded or failed, before its object goes.
//
//	running --terminates, or is in the informer of ended pods--> free at once
//	        --object gone without either-----------------------> cooling --Options.Cooling, or seen to have ended--> free
//
// What cools is forgotten by a restart.
type cooling struct {
	// mu is taken before the ledger's lock.
	mu sync.Mutex
	// running are the bound pods that were seen running and not terminating.
	running map[ledger.PodUID]bool
	// until is when the cards of a holding that cools come free, by the holding's UID.
	until map[ledger.PodUID]time.Time
}

// noteRunning remembers that the containers of a bound pod run, until it begins to terminate. Just before the API server removes
// a pod it writes a grace period of 0 into it: that is the end of one that was seen to terminate, or a forced delete, so what is
// known stays as it is.
func (o *Observer) noteRunning(pod *v1.Pod) {
	if o.options.Cooling <= 0 || pod.Spec.NodeName == "" {
		return
	}
	uid := ledger.PodUID(pod.UID)
	runs := pod.Status.Phase == v1.PodRunning
	if grace := pod.DeletionGracePeriodSeconds; runs && pod.DeletionTimestamp != nil {
		if grace != nil && *grace == 0 {
			return
		}
		runs = false
	}
	o.cooling.mu.Lock()
	defer o.cooling.mu.Unlock()
	if !runs {
		delete(o.cooling.running, uid)
		return
	}
	if _, _, held := o.ledger.Holding(uid); held {
		o.cooling.running[uid] = true
	}
}

// ran reports whether a pod was seen running and not terminating.
func (o *Observer) ran(uid ledger.PodUID) bool {
	o.cooling.mu.Lock()
	defer o.cooling.mu.Unlock()
	return o.cooling.running[uid]
}

// letGo ends what a pod held that is not among the living any more: at once, or after cooling.
func (o *Observer) letGo(uid ledger.PodUID) {
	o.forgetAhead(uid)
	o.cooling.mu.Lock()
	defer o.cooling.mu.Unlock()
	ran := o.cooling.running[uid]
	delete(o.cooling.running, uid)
	held, stage, known := o.ledger.Holding(uid)
	if !ran || !known || stage != ledger.StageBound || o.hasEnded(held.Pod, uid) {
		// The scheduler speaks of the end of a reservation before its cards are free here, or not at all.
		if o.ledger.Release(uid) && stage != ledger.StageBound && o.options.Freed != nil {
			o.options.Freed()
		}
		return
	}
	held.UID, held.Pod = CoolingPrefix+uid, CoolingPrefix+held.Pod
	if err := o.ledger.Replace(uid, held); err != nil {
		o.logger.Error(err, "Cards of a pod that was deleted while it ran cannot be held back", "pod", held.Pod, "node", held.Node)
		return
	}
	o.cooling.until[held.UID] = o.clock.Now().Add(o.options.Cooling)
	metrics.ForcedDeletes.Inc()
	o.logger.V(2).Info("Pod was deleted while it ran; its cards stay held for a while", "pod", held.Pod, "node", held.Node, "for", o.options.Cooling)
}

// hasEnded asks the informer of ended pods, by "namespace/name".
func (o *Observer) hasEnded(name string, uid ledger.PodUID) bool {
	if o.ended == nil {
		return false
	}
	object, found, err := o.ended.GetByKey(name)
	if err != nil || !found {
		return false
	}
	pod, ok := object.(*v1.Pod)
	return ok && ledger.PodUID(pod.UID) == uid
}

// CoolDown frees the cards whose time is over and reports whether there were any.
func (o *Observer) CoolDown() bool {
	now := o.clock.Now()
	o.cooling.mu.Lock()
	defer o.cooling.mu.Unlock()
	freed := false
	for _, uid := range slices.Sorted(maps.Keys(o.cooling.until)) {
		if !now.Before(o.cooling.until[uid]) {
			delete(o.cooling.until, uid)
			freed = o.ledger.Release(uid) || freed
		}
	}
	return freed
}

// cooled frees the cards of a pod that turns out to have ended.
func (o *Observer) cooled(pod ledger.PodUID) bool {
	uid := CoolingPrefix + pod
	o.cooling.mu.Lock()
	defer o.cooling.mu.Unlock()
	if _, cools := o.cooling.until[uid]; !cools {
		return false
	}
	delete(o.cooling.until, uid)
	return o.ledger.Release(uid)
}
