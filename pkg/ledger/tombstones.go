package ledger

import "hash/maphash"

// maxTombstones is how many released UIDs are remembered. An event that arrives late does so within seconds; this is
// every pod of a cluster of 5000 nodes with 13 pods each, and takes 1.5 MiB.
const maxTombstones = 1 << 16

// tombstones remembers the UIDs added last, up to a limit. The oldest is forgotten first. Its memory is taken with the
// first UID and stays the same, whatever comes and goes: a map would grow by the places of those that are gone. It keeps
// 128 bits for a UID and not the UID, whose string would keep alive whatever it was cut from. Two UIDs are taken for the
// same with a probability of about 2^-128.
type tombstones struct {
	limit int
	seeds [2]maphash.Seed
	// ring holds the keys in the order in which they came, and a zero one for each that was dropped; once it is full, next
	// is the oldest.
	ring []tombstone
	next int
	// count is the number of keys in the ring that are not zero.
	count int
	// first has a list of keys for each value of slot, and link the one that comes next in it: places in the ring, plus one.
	first, link []int32
}

// tombstone stands for a UID.
type tombstone [2]uint64

func (t *tombstones) key(uid PodUID) tombstone {
	return tombstone{maphash.String(t.seeds[0], string(uid)), maphash.String(t.seeds[1], string(uid))}
}

// slot returns where the list begins in which the key is, or would be.
func (t *tombstones) slot(key tombstone) *int32 { return &t.first[key[0]%uint64(t.limit)] }

// find returns what refers to the place of the key, nil if it is not there.
func (t *tombstones) find(key tombstone) *int32 {
	for at := t.slot(key); *at > 0; at = &t.link[*at-1] {
		if t.ring[*at-1] == key {
			return at
		}
	}
	return nil
}

func (t *tombstones) has(uid PodUID) bool { return t.ring != nil && t.find(t.key(uid)) != nil }

// add remembers uid. Adding a UID again does not make it younger. The empty UID is nobody's.
func (t *tombstones) add(uid PodUID) {
	if uid == "" {
		return
	}
	if t.ring == nil {
		t.seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
		t.ring, t.first, t.link = make([]tombstone, 0, t.limit), make([]int32, t.limit), make([]int32, t.limit)
	}
	key := t.key(uid)
	if t.find(key) != nil {
		return
	}
	at := len(t.ring)
	if len(t.ring) < t.limit {
		t.ring = append(t.ring, key)
	} else {
		at = t.next
		t.take(t.find(t.ring[at]))
		t.ring[at] = key
		t.next = (t.next + 1) % t.limit
	}
	slot := t.slot(key)
	t.link[at], *slot = *slot, int32(at)+1
	t.count++
}

// drop forgets uid.
func (t *tombstones) drop(uid PodUID) {
	if t.ring != nil {
		t.take(t.find(t.key(uid)))
	}
}

// take takes the key to whose place at refers out of its list and out of the ring; nil is none.
func (t *tombstones) take(at *int32) {
	if at == nil {
		return
	}
	place := *at - 1
	*at, t.link[place] = t.link[place], 0
	t.ring[place] = tombstone{}
	t.count--
}

// listed returns the number of keys in the lists.
func (t *tombstones) listed() int {
	n := 0
	for i := range t.first {
		for at := t.first[i]; at > 0; at = t.link[at-1] {
			n++
		}
	}
	return n
}
