package ledger

// maxTombstones is how many released UIDs are remembered. An event that arrives late does so within seconds; this is
// every pod of a cluster of 5000 nodes with 13 pods each, and about 8 MiB.
const maxTombstones = 1 << 16

// tombstones remembers the UIDs added last, up to a limit. The oldest is forgotten first.
type tombstones struct {
	limit int
	set   map[PodUID]struct{}
	// ring holds the UIDs of set; once it is full, next is the oldest.
	ring []PodUID
	next int
}

func (t *tombstones) has(uid PodUID) bool {
	_, ok := t.set[uid]
	return ok
}

// add remembers uid. Adding a UID again does not make it younger.
func (t *tombstones) add(uid PodUID) {
	if t.has(uid) {
		return
	}
	if t.set == nil {
		t.set = map[PodUID]struct{}{}
	}
	if len(t.ring) < t.limit {
		t.ring = append(t.ring, uid)
	} else {
		delete(t.set, t.ring[t.next])
		t.ring[t.next] = uid
		t.next = (t.next + 1) % t.limit
	}
	t.set[uid] = struct{}{}
}
