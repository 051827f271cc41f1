package inventory

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The annotations that HAMi's device plugin writes on a node (Project-HAMi/HAMi docs/develop/protocol.md).
const (
	annotationHAMiRegister = "hami.io/node-nvidia-register"
	annotationHAMiScore    = "hami.io/node-nvidia-score"
)

const (
	// modeMIG is the mode of a card that HAMi or Volcano cuts into MIG instances by itself.
	modeMIG = "mig"
	// faultSick closes a card that its node agent calls unhealthy.
	faultSick = "reported unhealthy by its node agent"
)

// hamiDevice is one card of the JSON form. HAMi leaves out fields that are zero: an absent numa or index is 0, an
// absent health is false, and an absent devmem is a card without memory.
type hamiDevice struct {
	ID     string `json:"id"`
	Devmem int64  `json:"devmem"`
	Type   string `json:"type"`
	NUMA   int    `json:"numa"`
	Health bool   `json:"health"`
	Index  int    `json:"index"`
	Mode   string `json:"mode"`
}

// readHAMi reads HAMi's register, in the JSON form or the older text form, and its pair scores for the links. Where
// there are no scores the catalogue's links for the product and count stand in.
func readHAMi(in *input, r *report) (topology.Spec, bool) {
	value := in.annotation(annotationHAMiRegister)
	if strings.TrimSpace(value) == "" {
		return topology.Spec{}, false
	}
	devices, err := parseHAMiRegister(value)
	if err != nil {
		r.fail(annotationHAMiRegister, value, err)
		return topology.Spec{}, false
	}
	if len(devices) == 0 {
		return topology.Spec{}, false
	}
	in.shares = true
	listed := make([]listedCard, len(devices))
	for i, d := range devices {
		listed[i] = listedCard{index: d.Index, card: d.card(fmt.Sprintf("%s[%d]", annotationHAMiRegister, i), in, r)}
	}
	if !indexed(devices) {
		for i := range listed {
			listed[i].index = i
		}
	}
	cards, err := placeCards(listed)
	if err != nil {
		r.fail(annotationHAMiRegister, value, err)
		return topology.Spec{}, false
	}
	return topology.Spec{Cards: cards, Links: hamiLinks(in.annotation(annotationHAMiScore), cards, r)}, true
}

// indexed reports whether the devices carry indices; releases that wrote none list the cards in order.
func indexed(devices []hamiDevice) bool {
	for _, d := range devices {
		if d.Index != 0 {
			return true
		}
	}
	return len(devices) == 1
}

// card checks one entry of the register; field is its place.
func (d hamiDevice) card(field string, in *input, r *report) topology.Card {
	c := topology.Card{
		UUID:       strings.Clone(d.ID), // not the whole annotation along with it
		Product:    intern(strings.TrimPrefix(d.Type, "NVIDIA-")),
		NUMA:       max(d.NUMA, topology.NUMAUnknown),
		Healthy:    d.Health,
		MIGEnabled: d.Mode == modeMIG,
	}
	if !d.Health {
		closeCard(&c, faultSick)
		in.markSick(c.UUID, faultSick)
	}
	var fault string
	if c.VRAMBytes, fault = memoryBytes(d.Devmem); fault != "" {
		closeCard(&c, fault)
		r.add(field+".devmem", strconv.FormatInt(d.Devmem, 10), "card is closed: "+fault)
	}
	if c.UUID == "" {
		closeCard(&c, "has no UUID")
		r.add(field+".id", "", "card is closed: has no UUID")
	}
	return c
}

// parseHAMiRegister reads either form of hami.io/node-nvidia-register.
func parseHAMiRegister(value string) ([]hamiDevice, error) {
	value = strings.TrimSpace(value)
	if strings.HasPrefix(value, "[") || strings.HasPrefix(value, "{") {
		return parseHAMiJSON(value)
	}
	return parseHAMiText(value)
}

func parseHAMiJSON(value string) ([]hamiDevice, error) {
	var devices []hamiDevice
	if err := json.Unmarshal([]byte(value), &devices); err != nil {
		return nil, jsonError(err)
	}
	return devices, nil
}

// parseHAMiText reads "UUID,count,mem,core,type,numa,health[,index,mode]:", one group a card, each ended by a colon.
func parseHAMiText(value string) ([]hamiDevice, error) {
	groups, err := splitGroups(value)
	if err != nil {
		return nil, err
	}
	devices := make([]hamiDevice, 0, len(groups))
	for i, fields := range groups {
		if len(fields) != 7 && len(fields) != 8 && len(fields) != 9 {
			return nil, &topology.SpecError{Field: fmt.Sprintf("device %d", i), Value: strings.Join(fields, ","),
				Reason: fmt.Sprintf("has %d fields, not 7 to 9", len(fields))}
		}
		p := fieldParser{group: i, fields: fields}
		d := hamiDevice{
			ID: fields[0], Devmem: p.integer(2, "mem"), Type: fields[4],
			NUMA: int(p.integer(5, "numa")), Health: p.boolean(6, "health"),
		}
		if len(fields) > 7 {
			d.Index = int(p.integer(7, "index"))
		}
		if len(fields) > 8 {
			d.Mode = fields[8]
		}
		if p.err != nil {
			return nil, p.err
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// splitGroups splits "a,b,c:d,e,f:" into its groups and their fields; the colon after the last group may be missing.
func splitGroups(value string) ([][]string, error) {
	value = strings.TrimSuffix(strings.TrimSpace(value), ":")
	if value == "" {
		return nil, nil
	}
	if n := strings.Count(value, ":") + 1; n > topology.MaxCards {
		return nil, &topology.SpecError{Field: "devices", Value: strconv.Itoa(n),
			Reason: fmt.Sprintf("a node has at most %d cards", topology.MaxCards)}
	}
	var groups [][]string
	for group := range strings.SplitSeq(value, ":") {
		groups = append(groups, strings.Split(group, ","))
	}
	return groups, nil
}

// fieldParser reads the fields of one group and keeps the first error.
type fieldParser struct {
	group  int
	fields []string
	err    error
}

func (p *fieldParser) fail(at int, name, reason string) {
	if p.err == nil {
		field := fmt.Sprintf("device %d, field %s", p.group, name)
		p.err = &topology.SpecError{Field: field, Value: p.fields[at], Reason: reason}
	}
}

func (p *fieldParser) integer(at int, name string) int64 {
	n, err := strconv.ParseInt(p.fields[at], 10, 64)
	if err != nil {
		p.fail(at, name, "is not a whole number")
	}
	return n
}

func (p *fieldParser) boolean(at int, name string) bool {
	switch p.fields[at] {
	case "true":
		return true
	case "false":
		return false
	}
	p.fail(at, name, "is neither true nor false")
	return false
}

// jsonError says in one phrase what encoding/json found.
func jsonError(err error) error {
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s: a JSON %s cannot be a %s", e.Field, e.Value, e.Type)
	}
	return err
}
