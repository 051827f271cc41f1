package inventory

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
)

// faultIncomplete closes the cards of a pool of which not all slices are there: the driver is about to change what it
// said.
const faultIncomplete = "its ResourceSlice pool is incomplete"

// draDevice is a device of a ResourceSlice.
type draDevice struct {
	*resourcev1.Device
	pool       string
	incomplete bool
}

// draDevices returns the devices of this node in the newest generation of each of the driver's pools. A pool that
// lacks slices is reported, and its devices are marked: they are known to exist, so that no weaker source takes their
// place while the driver rewrites its slices, and take no pods.
func (in *input) draDevices(r *report) []draDevice {
	var own []*resourcev1.ResourceSlice
	for _, s := range in.slices {
		if s != nil && s.Spec.Driver == draDriver && s.Spec.NodeName != nil && *s.Spec.NodeName == in.node.Name {
			own = append(own, s)
		}
	}
	// The newest generation of a pool first.
	slices.SortFunc(own, func(a, b *resourcev1.ResourceSlice) int {
		p, q := a.Spec.Pool, b.Spec.Pool
		return cmp.Or(cmp.Compare(p.Name, q.Name), cmp.Compare(q.Generation, p.Generation), cmp.Compare(a.Name, b.Name))
	})
	var devices []draDevice
	for len(own) > 0 {
		pool := own[0].Spec.Pool
		n, want := 0, pool.ResourceSliceCount
		for n < len(own) && own[n].Spec.Pool.Name == pool.Name && own[n].Spec.Pool.Generation == pool.Generation {
			want = max(want, own[n].Spec.Pool.ResourceSliceCount)
			n++
		}
		incomplete := int64(n) != want
		if incomplete {
			r.add("ResourceSlice pool "+cut(pool.Name), fmt.Sprintf("%d of %d", n, want),
				fmt.Sprintf("slices of generation %d: its devices are closed until they are all there", pool.Generation))
		}
		for _, s := range own[:n] {
			for i := range s.Spec.Devices {
				devices = append(devices, draDevice{Device: &s.Spec.Devices[i], pool: pool.Name, incomplete: incomplete})
			}
		}
		for n < len(own) && own[n].Spec.Pool.Name == pool.Name {
			n++ // older generations
		}
		own = own[n:]
	}
	return devices
}

// field is the device's place in problems.
func (d *draDevice) field() string {
	return "ResourceSlice pool " + cut(d.pool) + ": device " + cut(d.Name)
}

// text reads the first of some string attributes that the device has. A name without a domain means the driver's own,
// which may also be written out.
func (d *draDevice) text(names ...string) string {
	for _, name := range names {
		for _, n := range [...]string{name, draDriver + "/" + name} {
			if v, ok := d.Attributes[resourcev1.QualifiedName(n)]; ok && v.StringValue != nil {
				return *v.StringValue
			}
		}
	}
	return ""
}

// amount reads a capacity. One beyond int64, or a fraction, is -1: no source of a size may take it for one.
func (d *draDevice) amount(name string) (int64, bool) {
	for _, n := range [...]string{name, draDriver + "/" + name} {
		if c, ok := d.Capacity[resourcev1.QualifiedName(n)]; ok {
			if v, whole := c.Value.AsInt64(); whole {
				return v, true
			}
			return -1, true
		}
	}
	return 0, false
}

// minor splits "gpu-<minor><rest>"; -1 for any other name.
func (d *draDevice) minor() (index int, rest string) {
	name, ok := strings.CutPrefix(d.Name, "gpu-")
	if !ok {
		return -1, ""
	}
	digits := len(name) - len(strings.TrimLeft(name, "0123456789"))
	n, err := strconv.ParseUint(name[:digits], 10, 31)
	if err != nil {
		return -1, ""
	}
	return int(n), name[digits:]
}
