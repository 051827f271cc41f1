package v1alpha1

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// NodeTopology is the value of TopologyAnnotation. See the package documentation for its JSON. Optional numbers are
// pointers: nil is unknown, 0 is a statement.
type NodeTopology struct {
	// V is Version.
	V int `json:"v"`
	// Cards is the node's cards in index order.
	Cards []NodeCard `json:"cards"`
	// Links has one row a card, its cells separated by blanks; nil if no link is known.
	Links []string `json:"links,omitempty"`
	// NVSwitch says that every pair of cards is joined through NVSwitches.
	NVSwitch bool `json:"nvswitch,omitempty"`
	// NICs is the node's network adapters.
	NICs []NodeNIC `json:"nics,omitempty"`
	// ObservedAt is when the node was looked at (RFC 3339), empty if not said. It decides nothing.
	ObservedAt string `json:"observedAt,omitempty"`
}

// NodeCard is one card of a node. The fields have the meaning of the fields of topology.Card.
type NodeCard struct {
	UUID       string `json:"uuid,omitempty"`
	Product    string `json:"product,omitempty"`
	VRAMBytes  *int64 `json:"vramBytes,omitempty"`
	NUMA       *int   `json:"numa,omitempty"`
	BusID      string `json:"busID,omitempty"`
	PCIeSwitch string `json:"pcieSwitch,omitempty"`
	PCIeRoot   string `json:"pcieRoot,omitempty"`
	// Healthy is false for a card that takes no new pod; nil is true.
	Healthy *bool `json:"healthy,omitempty"`
	// Fault says why the card cannot be used; a card with a fault is not healthy.
	Fault string   `json:"fault,omitempty"`
	MIG   *NodeMIG `json:"mig,omitempty"`
}

// NodeMIG is the MIG side of a card.
type NodeMIG struct {
	Enabled   bool           `json:"enabled"`
	Instances []NodeInstance `json:"instances,omitempty"`
}

// NodeInstance is one GPU instance of a card in MIG mode.
type NodeInstance struct {
	Profile   string `json:"profile"`
	UUID      string `json:"uuid,omitempty"`
	Start     int    `json:"start"`
	Size      int    `json:"size"`
	VRAMBytes *int64 `json:"vramBytes,omitempty"`
}

// NodeNIC is one network adapter.
type NodeNIC struct {
	Name string `json:"name"`
	// Links is the connection to every card in index order: PIX, PXB, PHB, NODE, SYS or ?.
	Links string `json:"links"`
}

// ParseTopology reads the value of TopologyAnnotation. topology.New accepts what it returns. A card whose own numbers
// cannot be true comes back with Fault set and Healthy false; any other fault refuses the whole value. Errors are
// *VersionError or *FieldError.
func ParseTopology(value string) (topology.Spec, error) {
	t := &NodeTopology{}
	if err := decode(TopologyAnnotation, value, t); err != nil {
		return topology.Spec{}, err
	}
	return t.spec()
}

// ParseNodeTopology reads the value of TopologyAnnotation as it stands, for those who need the time of observation too.
// It accepts exactly what ParseTopology accepts.
func ParseNodeTopology(value string) (*NodeTopology, error) {
	t := &NodeTopology{}
	if err := decode(TopologyAnnotation, value, t); err != nil {
		return nil, err
	}
	if _, err := t.spec(); err != nil {
		return nil, err
	}
	return t, nil
}

// FormatTopology returns the value of TopologyAnnotation for spec, of which ParseTopology makes the same node again.
// It leaves Source out, and refuses with a *FieldError what ParseTopology would refuse.
func FormatTopology(spec topology.Spec) (string, error) { return format(spec, "") }

// FormatTopologyAt is FormatTopology with the time of observation, to the second in UTC.
func FormatTopologyAt(spec topology.Spec, observed time.Time) (string, error) {
	return format(spec, observed.UTC().Format(time.RFC3339))
}

func format(spec topology.Spec, observed string) (string, error) {
	t := wireOf(spec)
	t.ObservedAt = observed
	if _, err := t.spec(); err != nil {
		return "", err
	}
	return encode(TopologyAnnotation, t)
}

func (t *NodeTopology) version() int { return t.V }

// spec checks the value and turns it into a description.
func (t *NodeTopology) spec() (topology.Spec, error) {
	none := topology.Spec{}
	switch {
	case t.Cards == nil:
		return none, missing("cards")
	case len(t.Cards) > topology.MaxCards:
		return none, refuse("cards", strconv.Itoa(len(t.Cards)), "a node has at most "+strconv.Itoa(topology.MaxCards)+" cards")
	}
	if t.ObservedAt != "" {
		if _, err := time.Parse(time.RFC3339, t.ObservedAt); err != nil {
			return none, refuse("observedAt", t.ObservedAt, "not an RFC 3339 time")
		}
	}
	spec := topology.Spec{NVSwitch: t.NVSwitch, Source: "annotation " + TopologyAnnotation}
	for i := range t.Cards {
		c, err := t.Cards[i].card(indexed("cards", i))
		if err != nil {
			return none, err
		}
		spec.Cards = append(spec.Cards, c)
	}
	var err error
	if spec.Links, err = matrix(t.Links, len(t.Cards)); err != nil {
		return none, err
	}
	if spec.NICs, err = nics(t.NICs, len(t.Cards)); err != nil {
		return none, err
	}
	return spec, nil
}

// matrix reads the rows of the link matrix.
func matrix(rows []string, n int) ([][]topology.Link, error) {
	if rows == nil || n == 0 && len(rows) == 0 {
		return nil, nil
	}
	if len(rows) != n {
		return nil, refuse("links", strconv.Itoa(len(rows)), fmt.Sprintf("%d cards need %d rows", n, n))
	}
	links := make([][]topology.Link, n)
	for i, row := range rows {
		at := indexed("links", i)
		var err error
		if links[i], err = cells(at, row, n); err != nil {
			return nil, err
		}
		for j, l := range links[i] {
			self := l.Type == topology.LinkSelf
			if i == j && !self && l.Type != topology.LinkUnknown {
				return nil, refuse(indexed(at, j), l.String(), "a card and itself are joined by X")
			}
			if i != j && self {
				return nil, refuse(indexed(at, j), l.String(), "X joins a card with itself only")
			}
		}
	}
	return links, nil
}

func nics(ws []NodeNIC, n int) ([]topology.NIC, error) {
	var out []topology.NIC
	for i, w := range ws {
		at := indexed("nics", i)
		if err := text(at+".name", w.Name, true); err != nil {
			return nil, err
		}
		row, err := cells(at+".links", w.Links, n)
		if err != nil {
			return nil, err
		}
		nic := topology.NIC{Name: w.Name, Links: make([]topology.LinkType, n)}
		for j, l := range row {
			if l.Type > topology.LinkPIX {
				return nil, refuse(indexed(at+".links", j), l.String(), "an adapter is joined to a card by PIX, PXB, PHB, NODE, SYS or ?")
			}
			nic.Links[j] = l.Type
		}
		out = append(out, nic)
	}
	return out, nil
}

// cells reads one row of exactly n links.
func cells(at, row string, n int) ([]topology.Link, error) {
	fields := strings.Fields(row)
	if len(fields) != n {
		return nil, refuse(at, row, fmt.Sprintf("%d cells for %d cards", len(fields), n))
	}
	links := make([]topology.Link, n)
	for j, f := range fields {
		l, err := topology.ParseLink(f)
		if err != nil {
			return nil, refuse(indexed(at, j), f, "is none of X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS, ?")
		}
		links[j] = l
	}
	return links, nil
}
