package spread

import "maps"

// dictionary numbers names. The numbers are small: those of removed names are given out again.
type dictionary struct {
	// ids is copied before it changes once it was lent.
	ids  map[string]int32
	lent bool
	// edition is another one after every change.
	edition uint64
	names   []string
	free    []int32
}

func newDictionary() dictionary { return dictionary{ids: map[string]int32{}} }

// lend returns the numbers by name as they are now. The map never changes.
func (d *dictionary) lend() map[string]int32 {
	d.lent = true
	return d.ids
}

// own is called before every change.
func (d *dictionary) own() {
	d.edition++
	if d.lent {
		d.ids, d.lent = maps.Clone(d.ids), false
	}
}

// add returns the number of a name, a new one if it has none.
func (d *dictionary) add(name string) int32 {
	if id, ok := d.ids[name]; ok {
		return id
	}
	d.own()
	var id int32
	if last := len(d.free) - 1; last >= 0 {
		id, d.free = d.free[last], d.free[:last]
		d.names[id] = name
	} else {
		id = int32(len(d.names))
		d.names = append(d.names, name)
	}
	d.ids[name] = id
	return id
}

// remove frees the number of a name.
func (d *dictionary) remove(name string) {
	id, ok := d.ids[name]
	if !ok {
		return
	}
	d.own()
	delete(d.ids, name)
	d.names[id] = ""
	d.free = append(d.free, id)
}
