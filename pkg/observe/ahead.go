package observe

import (
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// ahead are the bound pods that the ledger was told of by somebody who had read them from the API server, and that the
// informer's store does not have yet: its watch was cut, or hangs. That the store does not have such a pod says nothing,
// so whoever looks for ends of pods in the store leaves it alone. Were it released, its cards would be sold twice: its UID
// counts as ended from then on, also once the watch tells of it.
//
//	read from the API server --store older than the pod--> ahead --told of by the informer, or ended----------> (none)
//	                                                         |
//	                                                         +--store as new as the pod, and without it--> it has ended
type ahead struct {
	// mu guards what follows. Nothing is locked or called while it is held.
	mu   sync.Mutex
	pods map[ledger.PodUID]sighting
	// ends are the versions at which pods succeeded or failed that the store still shows as living. The informer of ended pods may
	// be minutes ahead of it, and forgets a pod with its object.
	ends map[ledger.PodUID]string
}

// sighting is the version at which a pod was read, and when.
type sighting struct {
	version string
	at      time.Time
}

// aheadLimit is for a store that does not tell its version (client-go's gate AtomicFIFO is off): for so long the store may be
// behind. A watch ends after at most 10 minutes (client-go's minWatchTimeout, twice), and the next begins where it ended.
const aheadLimit = 15 * time.Minute

// noteAhead notes whether a living bound pod is one that the store does not have yet. An object without a version comes from
// no API server.
func (o *Observer) noteAhead(pod *v1.Pod) {
	uid := ledger.PodUID(pod.UID)
	seen := sighting{pod.ResourceVersion, o.clock.Now()}
	caughtUp := pod.ResourceVersion == "" || o.Living(pod.Namespace+"/"+pod.Name, uid) != nil || o.reached(seen)
	o.ahead.mu.Lock()
	defer o.ahead.mu.Unlock()
	if caughtUp {
		delete(o.ahead.pods, uid)
		return
	}
	o.ahead.pods[uid] = seen
}

// Ahead reports whether a pod was read from the API server at a version that the informer's store has not reached. Once it is
// false, what the store says of the pod afterwards counts.
func (o *Observer) Ahead(uid ledger.PodUID) bool {
	o.ahead.mu.Lock()
	seen, known := o.ahead.pods[uid]
	o.ahead.mu.Unlock()
	return known && !o.reached(seen)
}

// reached reports whether the store of pods is as new as a sighting.
func (o *Observer) reached(seen sighting) bool {
	order, err := resourceversion.CompareResourceVersion(o.podStore.LastStoreSyncResourceVersion(), seen.version)
	if err != nil {
		return o.clock.Since(seen.at) >= aheadLimit
	}
	return order >= 0
}

func (o *Observer) forgetAhead(uid ledger.PodUID) {
	o.ahead.mu.Lock()
	defer o.ahead.mu.Unlock()
	delete(o.ahead.pods, uid)
}

// noteEnd notes that a pod has ended, for as long as the store shows it as living.
func (o *Observer) noteEnd(pod *v1.Pod) {
	uid := ledger.PodUID(pod.UID)
	o.ahead.mu.Lock()
	o.ahead.ends[uid] = pod.ResourceVersion
	o.ahead.mu.Unlock()
	if o.Living(pod.Namespace+"/"+pod.Name, uid) == nil {
		o.forgetEnd(uid) // its delete from the store may have been told before
	}
}

func (o *Observer) forgetEnd(uid ledger.PodUID) {
	o.ahead.mu.Lock()
	defer o.ahead.mu.Unlock()
	delete(o.ahead.ends, uid)
}

// Outlived reports whether a pod is known to have ended after it was as the store shows it.
func (o *Observer) Outlived(pod *v1.Pod) bool {
	if o.hasEnded(pod.Namespace+"/"+pod.Name, ledger.PodUID(pod.UID)) {
		return true
	}
	o.ahead.mu.Lock()
	end, known := o.ahead.ends[ledger.PodUID(pod.UID)]
	o.ahead.mu.Unlock()
	if !known {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(pod.ResourceVersion, end)
	return err != nil || order < 0
}
