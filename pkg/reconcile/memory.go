package reconcile

import "github.com/gputopology/gpu-topology-scheduler/pkg/ledger"

// memory is what sweeps remember of pods: which were found to agree, in numbers only. It has one entry for each pod that the
// last sweep met in the ledger or among the bound GPU pods.
type memory struct {
	at      map[ledger.PodUID]int32
	entries []known
	// free are the places of entries that are not used.
	free []int32
	// turn is the number of the sweep under way.
	turn uint64
}

// known is what is known of a pod.
type known struct {
	uid ledger.PodUID
	// print (observe.Print) and revision (ledger.Entry) are those at which pod and holding agreed; revision is 0 for a pod
	// that has no holding and needs none, print where nothing is known.
	print, revision uint64
	// waits is the number of sweeps that have put off the comparison.
	waits int
	// seen and held are the turns in which the pod was last met in the store and in the ledger.
	seen, held uint64
}

// entry returns the place of a pod's entry, a new one where there is none.
func (m *memory) entry(uid ledger.PodUID) int32 {
	if at, ok := m.at[uid]; ok {
		return at
	}
	at := int32(len(m.entries)) //nolint:gosec // fewer pods than 2^31
	if last := len(m.free) - 1; last >= 0 {
		at, m.free = m.free[last], m.free[:last]
		m.entries[at] = known{uid: uid}
	} else {
		m.entries = append(m.entries, known{uid: uid})
	}
	m.at[uid] = at
	return at
}

// agreed notes that a pod and its holding agree.
func (k *known) agreed(version, revision uint64) { k.print, k.revision, k.waits = version, revision, 0 }

// open notes that nothing is known.
func (k *known) open() { k.print, k.revision, k.waits = 0, 0, 0 }

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
		m.entries, m.free = nil, nil
	}
}
