package ledger

import (
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// enter brings pod p, which takes card 0 of n1, into a state.
var enter = map[string]func(*fixture, Holding){
	"absent":  func(*fixture, Holding) {},
	"assumed": func(f *fixture, h Holding) { f.must(f.l.Assume(h)) },
	"unknown": func(f *fixture, h Holding) {
		f.must(f.l.Assume(h))
		f.answer("Suspect", f.l.Suspect(h.UID), true)
	},
	"bound":    func(f *fixture, h Holding) { f.must(f.l.Adopt(h)) },
	"released": func(f *fixture, h Holding) { f.answer("Release", f.l.Release(h.UID), false) },
}

// result is the outcome of one operation in one state.
type result struct {
	// State after the operation, OK its answer (true for a nil error), Err what it returned: "conflict", "released".
	State string
	OK    bool
	Err   string
	// Node and Card are what the pod holds then.
	Node NodeName
	Card int
}

func outcome(l *Ledger, uid PodUID, ok bool, err error) result {
	r := result{State: "absent", OK: ok && err == nil, Card: -1}
	var conflict *ConflictError
	switch {
	case errors.Is(err, ErrReleased):
		r.Err = "released"
	case errors.As(err, &conflict):
		r.Err = "conflict"
		if conflict.HeldBy == uid {
			r.Err = "self"
		}
	}
	if h, stage, held := l.Holding(uid); held {
		r.State, r.Node, r.Card = stage.String(), h.Node, h.Cards[0].Index
	} else if l.tombstones.has(uid) {
		r.State = "released"
	}
	return r
}

// operation is one row of the table: what to do, and what comes of it in every state.
type operation struct {
	op   func(*Ledger) (bool, error)
	want map[string]result
}

var (
	stageCards1, stageCards2 = cardsN8s("A"), cardsN8s("B")

	same  = holdWhole("p", "n1", stageCards1, 0)
	other = holdWhole("p", "n1", stageCards1, 1)
	moved = holdWhole("p", "n2", stageCards2, 2)

	absent   = result{State: "absent", Card: -1}
	released = result{State: "released", Card: -1}
	late     = result{State: "released", Err: "released", Card: -1}
	gaveBack = result{State: "absent", OK: true, Card: -1}
	ended    = result{State: "released", OK: true, Card: -1}
)

func onErr(op func(*Ledger) error) func(*Ledger) (bool, error) {
	return func(l *Ledger) (bool, error) { return true, op(l) }
}

func onBool(op func(*Ledger) bool) func(*Ledger) (bool, error) {
	return func(l *Ledger) (bool, error) { return op(l), nil }
}

// in is: the pod holds what it held.
func in(state string, ok bool) result { return result{State: state, OK: ok, Node: "n1", Card: 0} }

// self is: refused, because the pod itself holds something else.
func self(state string) result { return result{State: state, Err: "self", Node: "n1", Card: 0} }

// at is: bound with this card.
func at(node NodeName, card int) result {
	return result{State: "bound", OK: true, Node: node, Card: card}
}

// schedulingOperations are the rows of what the scheduling cycle does.
func schedulingOperations() map[string]operation {
	return map[string]operation{
		"Assume the same": {onErr(func(l *Ledger) error { return l.Assume(same) }), map[string]result{
			"absent": in("assumed", true), "assumed": in("assumed", true), "unknown": in("unknown", true), "bound": in("bound", true), "released": late,
		}},
		"Assume another card": {onErr(func(l *Ledger) error { return l.Assume(other) }), map[string]result{
			"absent":  {State: "assumed", OK: true, Node: "n1", Card: 1},
			"assumed": self("assumed"), "unknown": self("unknown"), "bound": self("bound"), "released": late,
		}},
		"Assume on another node": {onErr(func(l *Ledger) error { return l.Assume(moved) }), map[string]result{
			"absent":  {State: "assumed", OK: true, Node: "n2", Card: 2},
			"assumed": self("assumed"), "unknown": self("unknown"), "bound": self("bound"), "released": late,
		}},
		"AssumeAll of the same": {onErr(func(l *Ledger) error { return l.AssumeAll([]Holding{same}) }), map[string]result{
			"absent": in("assumed", true), "assumed": in("assumed", true), "unknown": in("unknown", true), "bound": in("bound", true), "released": late,
		}},
		"Confirm": {onBool(func(l *Ledger) bool { return l.Confirm("p") }), map[string]result{
			"absent": absent, "assumed": in("bound", true), "unknown": in("bound", true), "bound": in("bound", true), "released": released,
		}},
		"Suspect": {onBool(func(l *Ledger) bool { return l.Suspect("p") }), map[string]result{
			"absent": absent, "assumed": in("unknown", true), "unknown": in("unknown", true), "bound": in("bound", false), "released": released,
		}},
		"Forget": {onBool(func(l *Ledger) bool { return l.Forget("p") }), map[string]result{
			"absent": absent, "assumed": gaveBack, "unknown": in("unknown", false), "bound": in("bound", false), "released": released,
		}},
		"Refute": {onBool(func(l *Ledger) bool { return l.Refute("p") }), map[string]result{
			"absent": absent, "assumed": in("assumed", false), "unknown": gaveBack, "bound": in("bound", false), "released": released,
		}},
	}
}

// eventOperations are the rows of what the API server's events do.
func eventOperations() map[string]operation {
	return map[string]operation{
		"Adopt the same": {onErr(func(l *Ledger) error { return l.Adopt(same) }), map[string]result{
			"absent": at("n1", 0), "assumed": at("n1", 0), "unknown": at("n1", 0), "bound": at("n1", 0), "released": late,
		}},
		"Adopt another card": {onErr(func(l *Ledger) error { return l.Adopt(other) }), map[string]result{
			"absent": at("n1", 1), "assumed": at("n1", 1), "unknown": at("n1", 1), "bound": at("n1", 1), "released": late,
		}},
		"Adopt on another node": {onErr(func(l *Ledger) error { return l.Adopt(moved) }), map[string]result{
			"absent": at("n2", 2), "assumed": at("n2", 2), "unknown": at("n2", 2), "bound": at("n2", 2), "released": late,
		}},
		"Release": {onBool(func(l *Ledger) bool { return l.Release("p") }), map[string]result{
			"absent": released, "assumed": ended, "unknown": ended, "bound": ended, "released": released,
		}},
		"Restore the same": {onErr(func(l *Ledger) error { return l.Restore(same) }), map[string]result{
			"absent": at("n1", 0), "assumed": at("n1", 0), "unknown": at("n1", 0), "bound": at("n1", 0), "released": at("n1", 0),
		}},
		"Restore on another node": {onErr(func(l *Ledger) error { return l.Restore(moved) }), map[string]result{
			"absent": at("n2", 2), "assumed": at("n2", 2), "unknown": at("n2", 2), "bound": at("n2", 2), "released": at("n2", 2),
		}},
		"Replace by another pod": {onErr(func(l *Ledger) error { return l.Replace("p", holdWhole("q", "n1", stageCards1, 0)) }), map[string]result{
			"absent": ended, "assumed": ended, "unknown": ended, "bound": ended, "released": ended,
		}},
		"Replace by itself": {onErr(func(l *Ledger) error { return l.Replace("p", other) }), map[string]result{
			"absent": at("n1", 1), "assumed": at("n1", 1), "unknown": at("n1", 1), "bound": at("n1", 1), "released": late,
		}},
	}
}

// TestEveryOperationInEveryState is the table of the package documentation.
func TestEveryOperationInEveryState(t *testing.T) {
	tests := schedulingOperations()
	maps.Copy(tests, eventOperations())
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			for state, prepare := range enter {
				f := newFixture(t)
				f.node("n1", stageCards1)
				f.node("n2", stageCards2)
				prepare(f, same)
				ok, err := tc.op(f.l)
				f.check()
				if diff := cmp.Diff(tc.want[state], outcome(f.l, "p", ok, err)); diff != "" {
					t.Errorf("%s while %s (-want +got):\n%s", name, state, diff)
				}
				f.answer("q", f.l.Release("q"), name == "Replace by another pod")
				f.answer("p", f.l.Release("p"), tc.want[state].Node != "")
				f.free("n1", 0xff)
				f.free("n2", 0xff)
			}
		})
	}
}
