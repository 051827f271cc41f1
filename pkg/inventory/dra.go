package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// What NVIDIA's DRA driver calls things (cmd/gpu-kubelet-plugin and api/nvidia.com/resource of the driver).
const (
	draDriver     = "gpu.nvidia.com"
	draTypeGPU    = "gpu"
	draTypeMIG    = "mig"
	draTypeVFIO   = "vfio"
	draMemorySlot = "memorySlice"
)

// readDRA reads the ResourceSlices of NVIDIA's DRA driver. They name the cards, their health as taints, the MIG
// instances that exist and the PCIe root, but neither NVLinks nor NUMA nodes: links are the catalogue's where every
// pair of the machine is joined alike, else what follows from the roots.
func readDRA(in *input, r *report) (topology.Spec, bool) {
	devices := in.draDevices(r)
	if len(devices) == 0 {
		return topology.Spec{}, false
	}
	in.claims = true
	listed := draCards(devices, in, r)
	addMIGDevices(&listed, devices, r)
	cards, err := placeCards(listed)
	if err != nil {
		r.fail("ResourceSlice", devices[0].pool, err)
		return topology.Spec{}, false
	}
	if len(cards) == 0 {
		return topology.Spec{}, false
	}
	links := catalogueLinks(cards, false)
	if links == nil {
		links = rootLinks(cards)
	}
	return topology.Spec{Cards: cards, Links: links}, true
}

// draCards makes a card of every device of type "gpu".
func draCards(devices []draDevice, in *input, r *report) []listedCard {
	var listed []listedCard
	for _, d := range devices {
		switch kind := d.text("type"); kind {
		case draTypeGPU:
		case draTypeMIG, draTypeVFIO:
			continue
		default:
			r.add(d.field()+".type", kind, "is none of gpu, mig and vfio: ignored")
			continue
		}
		index, rest := d.minor()
		if index < 0 || rest != "" {
			r.add(d.field(), d.Name, "is not gpu-<minor>: ignored")
			continue
		}
		c := d.card(r)
		if taint, ok := closingTaint(d.Taints); ok {
			closeCard(&c, taint)
			in.markSick(c.UUID, taint)
		}
		if d.incomplete {
			closeCard(&c, faultIncomplete)
		}
		listed = append(listed, listedCard{index: index, card: c})
	}
	return listed
}

// card reads the attributes of a device of type "gpu".
func (d *draDevice) card(r *report) topology.Card {
	c := topology.Card{
		UUID:     d.text("uuid"),
		Product:  intern(d.text("productName")),
		BusID:    d.text("resource.kubernetes.io/pciBusID", "pcieBusID"),
		PCIeRoot: d.text("resource.kubernetes.io/pcieRoot"),
		NUMA:     topology.NUMAUnknown,
		Healthy:  true,
	}
	bytes, ok := d.amount("memory")
	switch {
	case !ok: // unknown
	case bytes <= 0 || bytes > topology.MaxVRAMBytes:
		fault := fmt.Sprintf("memory is %d bytes", bytes)
		closeCard(&c, fault)
		r.add(d.field()+".memory", strconv.FormatInt(bytes, 10), "card is closed: "+fault)
	default:
		c.VRAMBytes = bytes
	}
	return c
}

// addMIGDevices attaches every MIG device that exists to its card. A card in MIG mode is not a device of its own: it
// is made of what its instances say of it. A MIG device without a UUID is one that the driver could create, and is
// left out.
func addMIGDevices(listed *[]listedCard, devices []draDevice, r *report) {
	for _, d := range devices {
		if d.text("type") != draTypeMIG || d.text("uuid") == "" {
			continue
		}
		parent := d.text("parentUUID")
		index, rest := d.minor()
		if parent == "" || index < 0 || !strings.HasPrefix(rest, "-mig-") {
			r.add(d.field(), d.Name, "has no parentUUID or is not gpu-<minor>-mig-...: ignored")
			continue
		}
		instance, ok := d.instance(r)
		at := slices.IndexFunc(*listed, func(l listedCard) bool { return l.card.UUID == parent })
		if at < 0 {
			at = len(*listed)
			*listed = append(*listed, listedCard{index: index, card: topology.Card{
				UUID: parent, Product: intern(d.text("productName")), BusID: d.text("resource.kubernetes.io/pciBusID", "pcieBusID"),
				PCIeRoot: d.text("resource.kubernetes.io/pcieRoot"), NUMA: topology.NUMAUnknown, Healthy: true,
			}})
		}
		c := &(*listed)[at].card
		c.MIGEnabled = true
		if d.incomplete {
			closeCard(c, faultIncomplete)
		}
		if _, tainted := closingTaint(d.Taints); ok && !tainted {
			c.MIG = append(c.MIG, instance)
		}
	}
	for i := range *listed {
		slices.SortFunc((*listed)[i].card.MIG, func(a, b topology.MIGInstance) int { return a.Start - b.Start })
	}
}

// instance reads a device of type "mig". Its place on the card is given by one capacity memorySlice<i> a slice.
func (d *draDevice) instance(r *report) (topology.MIGInstance, bool) {
	m := topology.MIGInstance{Profile: intern(d.text("profile")), UUID: d.text("uuid")}
	var set topology.GPUSet
	for i := range topology.MaxCards {
		if n, ok := d.amount(draMemorySlot + strconv.Itoa(i)); ok && n > 0 {
			set = set.With(i)
		}
	}
	m.Start, m.Size = set.Lowest(), set.Len()
	if m.Profile == "" || m.Size == 0 || topology.GPUSet(m.SliceMask()) != set {
		r.add(d.field(), m.Profile, "MIG device has no profile, or its memory slices "+set.String()+" are no range: ignored")
		return m, false
	}
	if bytes, ok := d.amount("memory"); ok {
		m.VRAMBytes = bytes // topology.New judges it
	}
	return m, true
}

// closingTaint finds a taint that keeps pods off a device. Unknown effects count as none, as the API asks.
func closingTaint(taints []resourcev1.DeviceTaint) (string, bool) {
	for i := range taints {
		switch t := &taints[i]; t.Effect {
		case resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNoExecute:
			return fmt.Sprintf("device taint %s=%s:%s", t.Key, t.Value, t.Effect), true
		case resourcev1.DeviceTaintEffectNone:
		}
	}
	return "", false
}

// rootLinks derives links from PCIe roots, the worst that each case allows: cards under one root meet at the host
// bridge at the latest, cards under different roots may be on different sockets.
func rootLinks(cards []topology.Card) [][]topology.Link {
	links := make([][]topology.Link, len(cards))
	for i := range links {
		links[i] = make([]topology.Link, len(cards))
		for j := range links[i] {
			a, b := cards[i].PCIeRoot, cards[j].PCIeRoot
			switch {
			case i == j || a == "" || b == "":
			case a == b:
				links[i][j] = topology.Link{Type: topology.LinkPHB}
			default:
				links[i][j] = topology.Link{Type: topology.LinkSYS}
			}
		}
	}
	return links
}
