package reconcile

import (
	"cmp"
	"encoding/binary"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

// memory is what sweeps remember of pods: which were found to agree, in numbers only. It has one entry for each pod that the
// last sweep met in the ledger or among the bound GPU pods.
type memory struct {
	at      map[ledger.PodUID]int32
	entries []known
	// free are the places of entries that are not used.
	free []int32
	// turn is the number of the sweep under way.
	turn uint32
}

// known is what is known of a pod. A sweep touches all of them: this is as long as a line of the processor's cache.
type known struct {
	uid ledger.PodUID
	// start is the first eight bytes of uid, which sort as it does and are compared in a fraction of the time.
	start uint64
	// pod is the object that was last met in the store.
	pod *v1.Pod
	// print (observe.Print) and revision (ledger.Entry) are those at which pod and holding agreed; revision is 0 for a pod
	// that has no holding and needs none, print where nothing is known.
	print, revision uint64
	// seen and held are the turns in which the pod was last met in the store and in the ledger.
	seen, held uint32
	// waits is the number of sweeps that have put off the comparison.
	waits int32
	// settled says that print is that of the object pod for good.
	settled bool
}

// batch is the most pods that meet takes.
const batch = 128

// meet notes that the store has these pods. What lies far apart in memory is read for all of them first, so that the
// processor waits for many at a time, which takes half as long.
func (m *memory) meet(pods []*v1.Pod) {
	var starts [batch]uint64
	for i, pod := range pods {
		starts[i] = startOf(ledger.PodUID(pod.UID))
	}
	for i, pod := range pods {
		k := &m.entries[m.entry(ledger.PodUID(pod.UID), starts[i])]
		k.seen = m.turn
		if k.pod != pod {
			k.pod, k.settled = pod, false
		}
	}
}

// expect makes room for so many pods where there is none yet.
func (m *memory) expect(pods int) {
	if len(m.at) == 0 {
		m.at, m.entries = make(map[ledger.PodUID]int32, pods), make([]known, 0, pods)
	}
}

// entry returns the place of a pod's entry, a new one where there is none. start is startOf(uid).
func (m *memory) entry(uid ledger.PodUID, start uint64) int32 {
	if at, ok := m.at[uid]; ok {
		return at
	}
	at := int32(len(m.entries)) //nolint:gosec // fewer pods than 2^31
	if last := len(m.free) - 1; last >= 0 {
		at, m.free = m.free[last], m.free[:last]
	} else {
		m.entries = append(m.entries, known{})
	}
	m.entries[at] = known{uid: uid, start: start}
	m.at[uid] = at
	return at
}

func startOf(uid ledger.PodUID) uint64 {
	var bytes [8]byte
	copy(bytes[:], uid)
	return binary.BigEndian.Uint64(bytes[:])
}

// before orders two pods by UID.
func (k *known) before(o *known) int {
	if k.start != o.start {
		return cmp.Compare(k.start, o.start)
	}
	return cmp.Compare(k.uid, o.uid)
}

// agreed notes that a pod and its holding agree.
func (k *known) agreed(version uint64, lasting bool, revision uint64) {
	k.print, k.settled, k.revision, k.waits = version, lasting, revision, 0
}

// open notes that nothing is known.
func (k *known) open() { k.print, k.settled, k.revision, k.waits = 0, false, 0, 0 }

// still reports whether pod and holding agreed at this revision, and neither has changed since.
func (k *known) still(revision uint64, o *observe.Observer) bool {
	if k.print == 0 || k.revision != revision {
		return false
	}
	if k.settled {
		return true
	}
	version, lasting := o.Print(k.pod)
	k.settled = lasting && k.print == version
	return k.print == version
}

// tidy drops the entries of pods that this turn has not met.
func (m *memory) tidy() {
	for i := range m.entries {
		if k := &m.entries[i]; k.uid != "" && k.seen != m.turn && k.held != m.turn {
			delete(m.at, k.uid)
			*k = known{}
			m.free = append(m.free, int32(i)) //nolint:gosec // as above
		}
	}
	if len(m.at) == 0 {
		*m = memory{turn: m.turn}
	}
}
