package ledger

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestScripts plays the stories in testdata/scripts. A script is one "run" after another; every line is one operation:
//
//	node N CARD...        set the cards: A0 is a card of 80 GiB with that UUID, A0! a sick one, A0~ one in MIG mode with
//	                      seven instances 1g.10gb; "node N ?" knows nothing of the cards
//	remove N              remove the node
//	assume P N SHARE...   A0 is the whole card, A0/20 is 20 GiB of it, A0#3 its instance at slice 3
//	all P N SHARE... ; P N SHARE...   one transaction
//	adopt P N SHARE...    also ?2 for two unknown cards, ?1g.10gb*2 for two unknown instances, 9 for the card at index 9
//	replace OLD P N SHARE...
//	confirm P, suspect P, refute P, forget P, release P
//	show N                what readers see, and who holds what
//
// The answer of each operation follows it. After each, all invariants are checked.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		s := &script{t: t, l: New(), cards: map[NodeName][]topology.Card{}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd != "run" {
				d.Fatalf(t, "unknown directive %q", d.Cmd)
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				f := strings.Fields(line)
				if f[0] == "show" {
					s.show(&out, NodeName(f[1]))
				} else {
					fmt.Fprintf(&out, "%s: %s\n", strings.Join(f, " "), s.play(f))
				}
				if err := s.l.Check(); err != nil {
					d.Fatalf(t, "after %q: %v", line, err)
				}
			}
			return out.String()
		})
	})
}

type script struct {
	t *testing.T
	l *Ledger
	// cards are those that a node had last.
	cards map[NodeName][]topology.Card
}

// play runs one operation and returns its answer.
func (s *script) play(f []string) string {
	answer := strconv.FormatBool
	failed := func(err error) string {
		if err != nil {
			return err.Error()
		}
		return "ok"
	}
	uid := PodUID(f[1])
	switch f[0] {
	case "node":
		s.node(NodeName(f[1]), f[2:])
		return "ok"
	case "remove":
		s.l.RemoveNode(NodeName(f[1]))
		return "ok"
	case "assume":
		return failed(s.l.Assume(s.holding(f[1:])))
	case "adopt":
		return failed(s.l.Adopt(s.holding(f[1:])))
	case "replace":
		return failed(s.l.Replace(uid, s.holding(f[2:])))
	case "all":
		var hs []Holding
		for _, part := range strings.Split(strings.Join(f[1:], " "), ";") {
			hs = append(hs, s.holding(strings.Fields(part)))
		}
		return failed(s.l.AssumeAll(hs))
	case "confirm":
		return answer(s.l.Confirm(uid))
	case "suspect":
		return answer(s.l.Suspect(uid))
	case "refute":
		return answer(s.l.Refute(uid))
	case "forget":
		return answer(s.l.Forget(uid))
	case "release":
		return answer(s.l.Release(uid))
	}
	s.t.Fatalf("unknown operation %q", f)
	return ""
}

func (s *script) node(name NodeName, words []string) {
	if words[0] == "?" {
		s.l.SetNode(name, nil)
		return
	}
	var cards []topology.Card
	for _, w := range words {
		uuid := strings.TrimRight(w, "!~")
		c := topology.Card{UUID: uuid, VRAMBytes: 80 << 30}
		if strings.HasSuffix(w, "~") {
			c = migCard(uuid)
		}
		c.Healthy = !strings.HasSuffix(w, "!")
		cards = append(cards, c)
	}
	s.cards[name] = cards
	s.l.SetNode(name, build(s.t, cards))
}

// holding reads "P N SHARE...".
func (s *script) holding(f []string) Holding {
	h := Holding{UID: PodUID(f[0]), Pod: "ns/" + f[0], Node: NodeName(f[1])}
	for _, w := range f[2:] {
		if unknown, ok := strings.CutPrefix(w, "?"); ok {
			profile, count, mig := strings.Cut(unknown, "*")
			if mig {
				h.UnknownMIG = append(h.UnknownMIG, ProfileCount{profile, s.number(count)})
			} else {
				h.UnknownCards = s.number(unknown)
			}
			continue
		}
		h.Cards = append(h.Cards, s.share(h.Node, w))
	}
	return h
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) share(node NodeName, w string) allocate.CardShare {
	uuid, gib, part := strings.Cut(w, "/")
	uuid, slice, mig := strings.Cut(uuid, "#")
	for i, c := range s.cards[node] {
		switch {
		case c.UUID != uuid:
		case mig:
			return instance(c, i, s.number(slice))
		case part:
			return s.part(node, c, i, int64(s.number(gib))<<30)
		default:
			return whole(c, i)
		}
	}
	return allocate.CardShare{Index: s.number(uuid), SliceMask: allocate.WholeCard}
}

// part is a share on the lowest free slices of a card.
func (s *script) part(node NodeName, c topology.Card, i int, bytes int64) allocate.CardShare {
	sh := allocate.CardShare{Index: i, UUID: c.UUID, VRAMBytes: bytes}
	free := ^uint64(0)
	if a := s.l.Node(node); a != nil && i < len(a.Use) {
		free = ^a.Use[i].SliceMask
	}
	for range bytes / (c.VRAMBytes / allocate.SlicesPerCard) {
		sh.SliceMask |= free & -free
		free &= free - 1
	}
	return sh
}

// show prints a node: one column a card with the GiB in use, of MIG cards the instances in use.
func (s *script) show(out *strings.Builder, name NodeName) {
	a := s.l.Node(name)
	if a == nil {
		fmt.Fprintf(out, "%s is not known\n", name)
	} else {
		s.showState(out, a)
	}
	for _, e := range s.l.On(name) {
		fmt.Fprintf(out, "  %s %s:", e.UID, e.Stage)
		for _, c := range e.Cards {
			fmt.Fprintf(out, " %s", label(c))
		}
		if e.UnknownCards > 0 {
			fmt.Fprintf(out, " %d unknown", e.UnknownCards)
		}
		for _, m := range e.UnknownMIG {
			fmt.Fprintf(out, " %d unknown %s", m.Count, m.Profile)
		}
		out.WriteByte('\n')
	}
}

func label(c allocate.CardShare) string {
	switch {
	case c.UUID == "":
		return fmt.Sprint("index ", c.Index)
	case c.MIGProfile != "":
		return fmt.Sprintf("%s#%d", c.UUID, bits.TrailingZeros64(c.SliceMask))
	case !c.Whole():
		return fmt.Sprintf("%s/%d", c.UUID, c.VRAMBytes>>30)
	}
	return c.UUID
}

func (s *script) showState(out *strings.Builder, a *NodeGPUAllocation) {
	if a.Topology == nil {
		fmt.Fprintf(out, "%s: nothing known of its cards\n", a.Name)
	} else {
		fmt.Fprintf(out, "%s: free %s closed %s foreign %s\n", a.Name, a.Free, a.Closed, a.Foreign)
		cards, use := "  card", "  used"
		for i, u := range a.Use {
			c := a.Topology.Card(i)
			text := fmt.Sprint(u.VRAMBytes >> 30)
			if c.MIGEnabled {
				text = fmt.Sprintf("#%07b", u.SliceMask&0x7f)
			}
			width := max(len(text), len(c.UUID)+1)
			mark := ""
			if !c.Healthy {
				mark = "!"
			}
			cards += fmt.Sprintf(" %*s", width, c.UUID+mark)
			use += fmt.Sprintf(" %*s", width, text)
		}
		fmt.Fprintf(out, "%s\n%s\n", cards, use)
	}
	for _, m := range a.Missing() {
		fmt.Fprintf(out, "  missing %s of %s\n", label(m.Share), m.Pod)
	}
	for _, c := range a.Conflicts() {
		fmt.Fprintf(out, "  conflict: %s\n", c)
	}
	if a.Quarantined {
		out.WriteString("  in quarantine\n")
	}
}
