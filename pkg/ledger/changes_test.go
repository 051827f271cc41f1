package ledger

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// mirror has the generation of each known node, by what a cursor yields and nothing else.
type mirror struct {
	cursor *Cursor
	known  map[NodeName]uint64
}

func (m *mirror) read() (whole bool) {
	whole = m.cursor.Read()
	if whole {
		m.known = map[NodeName]uint64{}
	}
	for name, a := range m.cursor.Changed() {
		if a == nil {
			delete(m.known, name)
		} else {
			m.known[name] = a.Generation
		}
	}
	return whole
}

func generationsOf(l *Ledger) map[NodeName]uint64 {
	out := map[NodeName]uint64{}
	for a := range l.States() {
		out[a.Name] = a.Generation
	}
	return out
}

// TestCursorFollows: whatever happens between two reads, what a cursor yields adds up to the states of the ledger.
func TestCursorFollows(t *testing.T) {
	cards := cardsN8s("c-")
	facts := build(t, cards)
	partial, wholes := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		l := New()
		mirrors := []*mirror{{cursor: l.Follow()}, {cursor: l.Follow()}, {cursor: l.Follow()}}
		name := rapid.Custom(func(t *rapid.T) NodeName { return raceName(rapid.IntRange(0, 4).Draw(t, "node")) })
		uid := rapid.Custom(func(t *rapid.T) PodUID { return PodUID(fmt.Sprint("p", rapid.IntRange(0, 9).Draw(t, "uid"))) })
		t.Repeat(map[string]func(*rapid.T){
			"set":    func(t *rapid.T) { l.SetNode(name.Draw(t, "name"), facts) },
			"no gpu": func(t *rapid.T) { l.SetNode(name.Draw(t, "name"), nil) },
			"remove": func(t *rapid.T) { l.RemoveNode(name.Draw(t, "name")) },
			"adopt": func(t *rapid.T) {
				_ = l.Adopt(holdWhole(uid.Draw(t, "pod"), name.Draw(t, "name"), cards, rapid.IntRange(0, 7).Draw(t, "card"))) // a released one is refused
			},
			"assume": func(t *rapid.T) {
				_ = l.Assume(holdWhole(uid.Draw(t, "pod"), name.Draw(t, "name"), cards, rapid.IntRange(0, 7).Draw(t, "card"))) // a conflict is refused
			},
			"forget":  func(t *rapid.T) { l.Forget(uid.Draw(t, "pod")) },
			"release": func(t *rapid.T) { l.Release(uid.Draw(t, "pod")) },
			"many": func(t *rapid.T) {
				n := name.Draw(t, "name")
				for range rapid.IntRange(1, journalLength+10).Draw(t, "times") {
					l.SetNode(n, nil)
					l.SetNode(n, facts)
				}
			},
			"read": func(t *rapid.T) {
				m := rapid.SampledFrom(mirrors).Draw(t, "cursor")
				if m.read() {
					wholes++
				} else {
					partial++
				}
				if diff := cmp.Diff(generationsOf(l), m.known); diff != "" {
					t.Fatalf("what the cursor yielded (-ledger +cursor):\n%s", diff)
				}
			},
		})
	})
	if partial == 0 || wholes == 0 {
		t.Errorf("%d reads of some nodes and %d of all: want both", partial, wholes)
	}
}

// TestCursorReadsOnlyWhatChanged: the second read of a large ledger has the changed nodes, in the order of their changes.
func TestCursorReadsOnlyWhatChanged(t *testing.T) {
	l := New()
	for i := range 2000 {
		l.SetNode(raceName(i), nil)
	}
	c := l.Follow()
	if !c.Read() {
		t.Error("the first read is not of all nodes")
	}
	cards := cardsN8s("c-")
	l.SetNode("n7", build(t, cards))
	l.RemoveNode("n3")
	type change struct {
		Name  NodeName
		Known bool
	}
	whole := c.Read()
	var got []change
	for name, a := range c.Changed() {
		got = append(got, change{name, a != nil})
	}
	if diff := cmp.Diff([]change{{"n7", true}, {"n3", false}}, got); whole || diff != "" {
		t.Errorf("whole %v, changed nodes and whether they are known (-want +got):\n%s", whole, diff)
	}
	if whole := c.Read(); whole || len(maps.Collect(c.Changed())) != 0 {
		t.Errorf("nothing changed, but the cursor yields some, whole %v", whole)
	}
}

// TestCursorBesideWriters: a cursor that is read while pods come and go ends with the states of the ledger.
func TestCursorBesideWriters(t *testing.T) {
	l := New()
	cards := cardsN8s("c-")
	facts := []*topology.Node{build(t, cards), nil}
	m := mirror{cursor: l.Follow()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 20_000 {
			n := raceName(i % 7)
			switch i % 5 {
			case 0:
				l.RemoveNode(n)
			case 1, 2:
				l.SetNode(n, facts[i%2])
			case 3:
				_ = l.Adopt(holdWhole(PodUID(fmt.Sprint("p", i)), n, cards, i%8)) // never refused: the UID is new
			default:
				l.Release(PodUID(fmt.Sprint("p", i-1)))
			}
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		m.read()
	}
	if diff := cmp.Diff(generationsOf(l), m.known); diff != "" {
		t.Errorf("what the cursor yielded (-ledger +cursor):\n%s", diff)
	}
}

// TestJournalBounds: who is at most as far behind as the journal is long gets every node in order, and who is further gets none.
func TestJournalBounds(t *testing.T) {
	entries := make([]*node, 3*journalLength)
	for i := range entries {
		entries[i] = &node{}
	}
	var j journal
	for count := range entries {
		if at := count % journalLength; at < 2 || at > journalLength-2 || at == journalLength/2 {
			for _, behind := range []int{0, 1, 2, journalLength - 1, journalLength, journalLength + 1, journalLength + 2} {
				if behind > count {
					continue
				}
				got, ok := j.after(uint64(count-behind), nil)
				if want := behind <= journalLength; ok != want || ok && !slices.Equal(got, entries[count-behind:count]) || !ok && len(got) > 0 {
					t.Fatalf("%d of %d publications behind: %d nodes, complete %v", behind, count, len(got), ok)
				}
			}
		}
		j.add(entries[count])
	}
}
