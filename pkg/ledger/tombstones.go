package ledger

// maxTombstones is how many released UIDs are remembered. An event that arrives late does so within seconds; this is
// every pod of a cluster of 5000 nodes with 13 pods each, and about 8 MiB.
const maxTombstones = 1 << 16

// tombstones remembers the UIDs added last, up to a limit. The oldest is forgotten first.
type tombstones struct {
	limit int
	// set maps a UID to its place in ring.
	set map[PodUID]int
	// ring holds the UIDs of set, and an empty one for each that was dropped; once it is full, next is the oldest.
	ring []PodUID
	next int
	// dropped is the number of empty ones in the ring.
	dropped int
}

func (t *tombstones) has(uid PodUID) bool {
	_, ok := t.set[uid]
	return ok
}

// add remembers uid. Adding a UID again does not make it younger. The empty UID is nobody's.
func (t *tombstones) add(uid PodUID) {
	if uid == "" || t.has(uid) {
		return
	}
	if t.set == nil {
		t.set = map[PodUID]int{}
	}
	at := len(t.ring)
	if len(t.ring) < t.limit {
		t.ring = append(t.ring, uid)
	} else {
		if t.ring[t.next] == "" {
			t.dropped--
		}
		delete(t.set, t.ring[t.next])
		at = t.next
		t.ring[at] = uid
		t.next = (t.next + 1) % t.limit
	}
	t.set[uid] = at
}

// drop forgets uid.
func (t *tombstones) drop(uid PodUID) {
	at, ok := t.set[uid]
	if !ok {
		return
	}
	delete(t.set, uid)
	t.ring[at] = ""
	t.dropped++
}
