package topology

import (
	"fmt"
	"slices"
	"strconv"
)

// MaxVRAMBytes is the largest memory a card may claim, 16 TiB: a larger figure is a broken source, not a card.
const MaxVRAMBytes = int64(1) << 44

// New checks a description and builds the node's graph. It keeps no reference to spec.
//
// A fault of the whole is a *SpecError: more than MaxCards cards, a matrix that is not one row and one column a
// card, a link that cannot be, a NUMA id below NUMAUnknown, an adapter without one link a card, invalid rates.
//
// A fault of one card closes that card and leaves the rest: its Fault says why and Healthy is false. Such faults are
// a memory below 0 (it then counts as unknown) or above MaxVRAMBytes, a UUID that stands twice on the node (both
// cards are closed), MIG instances that overlap or do not fit, and a Fault that the source itself set.
//
// A link whose two directions differ is read as the weaker one. With spec.NVSwitch every pair is joined by NVLink;
// the number of links is the matrix's, else the product's, else 1. A node without cards is allowed.
func New(spec Spec, rates Rates) (*Node, error) {
	if err := rates.Validate(); err != nil {
		return nil, err
	}
	if err := spec.check(); err != nil {
		return nil, err
	}
	k := &kind{
		cards:  copyCards(spec.Cards),
		links:  spec.matrix(),
		nics:   copyNICs(spec.NICs),
		source: spec.Source,
	}
	closeFaulty(k.cards)
	uuids := make([]string, len(k.cards))
	for i := range k.cards {
		uuids[i], k.cards[i].UUID = k.cards[i].UUID, ""
		if k.cards[i].Healthy {
			k.open = k.open.With(i)
		}
		if k.cards[i].MIGEnabled {
			k.mig = k.mig.With(i)
		}
	}
	k.models = modelsOf(k.cards)
	k.shape = newShape(k, rates)
	k.identify()
	return &Node{kind: k, uuids: uuids}, nil
}

func modelsOf(cards []Card) []Model {
	var models []Model
	for i := range cards {
		at := slices.IndexFunc(models, func(m Model) bool { return m.Product == cards[i].Product })
		if at < 0 {
			at, models = len(models), append(models, Model{Product: cards[i].Product})
		}
		models[at].Cards = models[at].Cards.With(i)
	}
	return models
}

// Spec returns a description from which New builds this node again. The copy is the caller's.
func (n *Node) Spec() Spec {
	k := n.kind
	s := Spec{Cards: copyCards(k.cards), NICs: copyNICs(k.nics), Source: k.source, Links: make([][]Link, len(k.cards))}
	for i := range s.Links {
		s.Cards[i].UUID = n.uuids[i]
		s.Links[i] = slices.Clone(k.links[i*len(k.cards) : (i+1)*len(k.cards)])
	}
	return s
}

func copyCards(cards []Card) []Card {
	out := slices.Clone(cards)
	for i := range out {
		out[i].MIG = copyOf(out[i].MIG)
	}
	return out
}

// copyOf is nil for an empty slice: what has one Kind is deeply equal.
func copyOf[T any](s []T) []T {
	if len(s) == 0 {
		return nil
	}
	return slices.Clone(s)
}

func copyNICs(nics []NIC) []NIC {
	out := copyOf(nics)
	for i := range out {
		out[i].Links = slices.Clone(out[i].Links)
	}
	return out
}

// check finds faults of the whole description.
func (s *Spec) check() error {
	if len(s.Cards) > MaxCards {
		return &SpecError{Field: "cards", Value: strconv.Itoa(len(s.Cards)), Reason: fmt.Sprintf("a node has at most %d cards", MaxCards)}
	}
	for i := range s.Cards {
		if s.Cards[i].NUMA < NUMAUnknown {
			return &SpecError{Field: fmt.Sprintf("cards[%d].numa", i), Value: strconv.Itoa(s.Cards[i].NUMA), Reason: "a NUMA id is 0 or more, -1 if unknown"}
		}
	}
	if err := s.checkLinks(); err != nil {
		return err
	}
	return s.checkNICs()
}

func (s *Spec) checkLinks() error {
	if s.Links == nil {
		return nil
	}
	n := len(s.Cards)
	if len(s.Links) != n {
		return &SpecError{Field: "links", Value: strconv.Itoa(len(s.Links)), Reason: fmt.Sprintf("%d cards need %d rows", n, n)}
	}
	for i, row := range s.Links {
		if len(row) != n {
			return &SpecError{Field: fmt.Sprintf("links[%d]", i), Value: strconv.Itoa(len(row)), Reason: fmt.Sprintf("%d cards need %d columns", n, n)}
		}
		for j, l := range row {
			if reason := l.fault(i == j); reason != "" {
				return &SpecError{Field: fmt.Sprintf("links[%d][%d]", i, j), Value: l.String(), Reason: reason}
			}
		}
	}
	return nil
}

// fault says what is wrong with a link of two cards, or of a card and itself; "" if nothing is.
func (l Link) fault(self bool) string {
	switch {
	case l.Type > LinkSelf:
		return "type " + strconv.Itoa(int(l.Type)) + " is no link type"
	case (l.Type == LinkNVLink) != (l.NVLinks > 0):
		return "type " + strconv.Itoa(int(l.Type)) + " with " + strconv.Itoa(int(l.NVLinks)) + " NVLinks"
	case self && l.Type != LinkSelf && l.Type != LinkUnknown:
		return "a card and itself are joined by X"
	case !self && l.Type == LinkSelf:
		return "X joins a card with itself only"
	}
	return ""
}

func (s *Spec) checkNICs() error {
	for i, nic := range s.NICs {
		if len(nic.Links) != len(s.Cards) {
			return &SpecError{Field: fmt.Sprintf("nics[%d].links", i), Value: strconv.Itoa(len(nic.Links)),
				Reason: fmt.Sprintf("%d cards need %d links", len(s.Cards), len(s.Cards))}
		}
		for j, t := range nic.Links {
			if t > LinkPIX {
				return &SpecError{Field: fmt.Sprintf("nics[%d].links[%d]", i, j), Value: strconv.Itoa(int(t)),
					Reason: "an adapter is joined to a card by PIX, PXB, PHB, NODE, SYS or an unknown link"}
			}
		}
	}
	return nil
}

// matrix returns the links row by row, both directions equal, X on the diagonal.
func (s *Spec) matrix() []Link {
	n := len(s.Cards)
	out := make([]Link, n*n)
	for i := range n {
		out[i*n+i] = Link{Type: LinkSelf}
		for j := range i {
			var l Link
			if s.Links != nil {
				l = Weaker(s.Links[i][j], s.Links[j][i])
			}
			if s.NVSwitch && l.Type != LinkNVLink {
				links := min(modelOf(s.Cards[i].Product).links, modelOf(s.Cards[j].Product).links)
				l = Link{Type: LinkNVLink, NVLinks: max(links, 1)}
			}
			out[i*n+j], out[j*n+i] = l, l
		}
	}
	return out
}
