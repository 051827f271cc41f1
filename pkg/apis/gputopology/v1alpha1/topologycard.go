package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// card turns one card of the wire into a card of a description. What cannot be true of this card alone becomes its
// Fault; the rest of the faults a card may have (memory above the maximum, overlapping instances) topology.New finds.
func (w *NodeCard) card(at string) (topology.Card, error) {
	c := topology.Card{
		UUID: w.UUID, Product: w.Product, BusID: w.BusID, PCIeSwitch: w.PCIeSwitch, PCIeRoot: w.PCIeRoot,
		NUMA: topology.NUMAUnknown, Healthy: w.Healthy == nil || *w.Healthy, Fault: w.Fault,
	}
	for _, t := range []struct{ field, value string }{
		{".uuid", w.UUID}, {".product", w.Product}, {".busID", w.BusID}, {".pcieSwitch", w.PCIeSwitch},
		{".pcieRoot", w.PCIeRoot}, {".fault", w.Fault},
	} {
		if err := text(at+t.field, t.value, false); err != nil {
			return topology.Card{}, err
		}
	}
	if w.NUMA != nil {
		if *w.NUMA < topology.NUMAUnknown {
			return topology.Card{}, refuse(at+".numa", strconv.Itoa(*w.NUMA), "a NUMA id is 0 or more, -1 if unknown")
		}
		c.NUMA = *w.NUMA
	}
	if w.VRAMBytes != nil {
		c.VRAMBytes = *w.VRAMBytes
		if *w.VRAMBytes <= 0 {
			setFault(&c, fmt.Sprintf("vramBytes is %d", *w.VRAMBytes))
		}
	}
	if w.MIG != nil {
		if err := w.MIG.into(&c, at+".mig"); err != nil {
			return topology.Card{}, err
		}
	}
	if c.Fault != "" {
		c.Healthy = false
	}
	return c, nil
}

func (m *NodeMIG) into(c *topology.Card, at string) error {
	if len(m.Instances) > migSlices {
		return refuse(at+".instances", strconv.Itoa(len(m.Instances)), "a card has at most "+strconv.Itoa(migSlices)+" instances")
	}
	c.MIGEnabled = m.Enabled
	for i, w := range m.Instances {
		here := indexed(at+".instances", i)
		if err := text(here+".profile", w.Profile, false); err != nil {
			return err
		}
		if err := text(here+".uuid", w.UUID, false); err != nil {
			return err
		}
		instance := topology.MIGInstance{Profile: Profile(w.Profile), UUID: w.UUID, Start: w.Start, Size: w.Size}
		if w.VRAMBytes != nil {
			instance.VRAMBytes = *w.VRAMBytes
			if *w.VRAMBytes <= 0 {
				setFault(c, fmt.Sprintf("MIG instance %d has vramBytes %d", i, *w.VRAMBytes))
			}
		}
		c.MIG = append(c.MIG, instance)
	}
	return nil
}

func setFault(c *topology.Card, fault string) {
	if c.Fault == "" {
		c.Fault = fault
	}
}

// Profile returns a MIG profile as nvidia-smi spells it. In the names of resources and labels, where a "+" is not
// allowed, NVIDIA's device plugin writes "." for it: "1g.10gb.me" is profile "1g.10gb+me".
func Profile(s string) string {
	if size, attribute, ok := strings.Cut(s, "gb."); ok {
		return size + "gb+" + attribute
	}
	return s
}

// wireOf is the reverse of spec.
func wireOf(spec topology.Spec) *NodeTopology {
	t := &NodeTopology{V: Version, Cards: make([]NodeCard, 0, len(spec.Cards)), NVSwitch: spec.NVSwitch}
	for i := range spec.Cards {
		t.Cards = append(t.Cards, wireCard(&spec.Cards[i]))
	}
	for _, row := range spec.Links {
		var b strings.Builder
		for j, l := range row {
			if j > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(l.String())
		}
		t.Links = append(t.Links, b.String())
	}
	for _, nic := range spec.NICs {
		row := make([]string, len(nic.Links))
		for j, l := range nic.Links {
			row[j] = topology.Link{Type: l}.String()
		}
		t.NICs = append(t.NICs, NodeNIC{Name: nic.Name, Links: strings.Join(row, " ")})
	}
	return t
}

func wireCard(c *topology.Card) NodeCard {
	w := NodeCard{
		UUID: c.UUID, Product: c.Product, BusID: c.BusID, PCIeSwitch: c.PCIeSwitch, PCIeRoot: c.PCIeRoot, Fault: c.Fault,
	}
	if c.VRAMBytes != 0 {
		w.VRAMBytes = &c.VRAMBytes
	}
	if c.NUMA != topology.NUMAUnknown {
		w.NUMA = &c.NUMA
	}
	if !c.Healthy {
		w.Healthy = &c.Healthy
	}
	if c.MIGEnabled || len(c.MIG) > 0 {
		w.MIG = &NodeMIG{Enabled: c.MIGEnabled}
		for i := range c.MIG {
			m := &c.MIG[i]
			n := NodeInstance{Profile: m.Profile, UUID: m.UUID, Start: m.Start, Size: m.Size}
			if m.VRAMBytes != 0 {
				n.VRAMBytes = &m.VRAMBytes
			}
			w.MIG.Instances = append(w.MIG.Instances, n)
		}
	}
	return w
}
