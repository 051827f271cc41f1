package inventory

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// annotationVolcanoRegister is what Volcano's vGPU device plugin writes on a node
// (volcano-sh/volcano pkg/scheduler/api/devices/nvidia/vgpu).
const annotationVolcanoRegister = "volcano.sh/node-vgpu-register"

// volcanoDevice is one card of Volcano's register.
type volcanoDevice struct {
	uuid, product, mode string
	memory              int64
	healthy             bool
}

// readVolcano reads Volcano's register. It names neither indices nor links: cards are numbered as listed, and links
// are the catalogue's where every pair of the machine is joined alike.
func readVolcano(in *input, r *report) (topology.Spec, bool) {
	value := in.annotation(annotationVolcanoRegister)
	devices, err := parseVolcanoRegister(value)
	if err != nil {
		r.fail(annotationVolcanoRegister, value, err)
		return topology.Spec{}, false
	}
	if len(devices) == 0 {
		return topology.Spec{}, false
	}
	in.shares = true
	cards := make([]topology.Card, len(devices))
	for i, d := range devices {
		cards[i] = d.card(fmt.Sprintf("%s[%d]", annotationVolcanoRegister, i), in, r)
	}
	return topology.Spec{Cards: cards, Links: catalogueLinks(cards, false)}, true
}

// card checks one entry of the register; field is its place.
func (d volcanoDevice) card(field string, in *input, r *report) topology.Card {
	c := topology.Card{
		UUID:       strings.Clone(d.uuid),
		Product:    intern(d.product),
		NUMA:       topology.NUMAUnknown,
		Healthy:    d.healthy,
		MIGEnabled: d.mode == modeMIG,
	}
	if !d.healthy {
		closeCard(&c, faultSick)
		in.markSick(c.UUID, faultSick)
	}
	var fault string
	if c.VRAMBytes, fault = memoryBytes(d.memory); fault != "" {
		closeCard(&c, fault)
		r.add(field+".memory", strconv.FormatInt(d.memory, 10), "card is closed: "+fault)
	}
	if c.UUID == "" {
		closeCard(&c, "has no UUID")
		r.add(field+".uuid", "", "card is closed: has no UUID")
	}
	return c
}

// parseVolcanoRegister reads "UUID,count,memory,type,health,mode:", one group a card, each ended by a colon. Memory
// is in MiB; fields after the sixth are left for later releases.
func parseVolcanoRegister(value string) ([]volcanoDevice, error) {
	groups, err := splitGroups(value)
	if err != nil {
		return nil, err
	}
	devices := make([]volcanoDevice, 0, len(groups))
	for i, fields := range groups {
		if len(fields) < 6 {
			return nil, &topology.SpecError{Field: fmt.Sprintf("device %d", i), Value: strings.Join(fields, ","),
				Reason: fmt.Sprintf("has %d fields, not 6", len(fields))}
		}
		p := fieldParser{group: i, fields: fields}
		d := volcanoDevice{
			uuid: fields[0], memory: p.integer(2, "memory"), product: fields[3],
			healthy: p.boolean(4, "health"), mode: fields[5],
		}
		if p.err != nil {
			return nil, p.err
		}
		devices = append(devices, d)
	}
	return devices, nil
}
