package reconcile

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// cards is what pod p holds: whole cards of a node.
func cards(node ledger.NodeName, indices ...int) ledger.Holding {
	h := ledger.Holding{UID: "p", Pod: "ns/p", Node: node}
	for _, i := range indices {
		h.Cards = append(h.Cards, allocate.CardShare{Index: i, SliceMask: allocate.WholeCard, ComputeMilli: allocate.MilliPerCard})
	}
	return h
}

// unknown is what pod p holds if nobody knows which cards.
func unknown(node ledger.NodeName, n int) ledger.Holding {
	return ledger.Holding{UID: "p", Pod: "ns/p", Node: node, UnknownCards: n}
}

// both adds unknown cards to a holding.
func both(h ledger.Holding, n int) ledger.Holding {
	h.UnknownCards = n
	return h
}

func entry(stage ledger.Stage, h ledger.Holding) *ledger.Entry {
	return &ledger.Entry{Holding: h, Stage: stage, Revision: 7}
}

// bound is how the API shows pod p if it is bound and holds this; unbound if it has no node.
func bound(h ledger.Holding) *Seen {
	return &Seen{UID: "p", Pod: "ns/p", Node: h.Node, Holds: true, Charge: h}
}

var unbound = &Seen{UID: "p", Pod: "ns/p"}

type planCase struct {
	held     *ledger.Entry
	seen     *Seen
	inFlight bool
	// before is the suspicion of the sweep before; its Since is start unless age is set, counted back from there.
	before *Suspicion
	age    time.Duration
	// want is the repair that is planned, "" for none; wantSuspected what the next sweep is to look at.
	want          Kind
	wantSuspected Kind
}

func again(kind Kind) *Suspicion { return &Suspicion{Kind: kind, Revision: 7} }

func boundCases() map[string]planCase {
	b := ledger.StageBound
	had := cards("n1", 0)
	return map[string]planCase{
		"agrees":                                 {held: entry(b, had), seen: bound(had)},
		"gone, first sweep":                      {held: entry(b, had), wantSuspected: Orphan},
		"gone, second sweep":                     {held: entry(b, had), before: again(Orphan), age: confirmAfter, want: Orphan},
		"gone, second sweep too soon":            {held: entry(b, had), before: again(Orphan), age: confirmAfter - 1, wantSuspected: Orphan},
		"gone, suspected of another holding":     {held: entry(b, had), before: &Suspicion{Kind: Orphan, Revision: 6}, age: time.Hour, wantSuspected: Orphan},
		"gone, suspected of something else":      {held: entry(b, had), before: again(Unconfirmed), age: time.Hour, wantSuspected: Orphan},
		"was gone and is back":                   {held: entry(b, had), seen: bound(had), before: again(Orphan), age: time.Hour},
		"store is behind":                        {held: entry(b, had), seen: unbound, before: again(Orphan), age: time.Hour},
		"on another node":                        {held: entry(b, had), seen: bound(cards("n2", 0)), want: Differing},
		"record readable now":                    {held: entry(b, unknown("n1", 1)), seen: bound(had), want: Differing},
		"unknown cards count otherwise":          {held: entry(b, unknown("n1", 1)), seen: bound(unknown("n1", 2)), want: Differing},
		"claims count otherwise beside cards":    {held: entry(b, had), seen: bound(both(had, 2)), want: Differing},
		"record edited":                          {held: entry(b, had), seen: bound(cards("n1", 3)), want: Edited, wantSuspected: Edited},
		"record edited, told":                    {held: entry(b, had), seen: bound(cards("n1", 3)), before: again(Edited), wantSuspected: Edited},
		"record edited, told of another holding": {held: entry(b, had), seen: bound(cards("n1", 3)), before: &Suspicion{Kind: Edited, Revision: 6}, want: Edited, wantSuspected: Edited},
		"record removed":                         {held: entry(b, had), seen: bound(unknown("n1", 1)), want: Edited, wantSuspected: Edited},
		"request taken away":                     {held: entry(b, had), seen: &Seen{UID: "p", Pod: "ns/p", Node: "n1"}, before: again(Orphan), age: time.Hour},
	}
}

func assumedCases() map[string]planCase {
	a := ledger.StageAssumed
	has := cards("n1", 0)
	return map[string]planCase{
		"in its cycle":                           {held: entry(a, has), seen: unbound, wantSuspected: Expired},
		"in its cycle for long":                  {held: entry(a, has), seen: unbound, before: again(Expired), age: assumedLimit - 1, wantSuspected: Expired},
		"left over":                              {held: entry(a, has), seen: unbound, before: again(Expired), age: assumedLimit, want: Expired},
		"left over, but in flight":               {held: entry(a, has), seen: unbound, inFlight: true, before: again(Expired), age: assumedLimit},
		"reserved anew":                          {held: entry(a, has), seen: unbound, before: &Suspicion{Kind: Expired, Revision: 6}, age: assumedLimit, wantSuspected: Expired},
		"gone, first sweep":                      {held: entry(a, has), wantSuspected: Orphan},
		"gone, second sweep":                     {held: entry(a, has), before: again(Orphan), age: confirmAfter, want: Orphan},
		"gone, in flight":                        {held: entry(a, has), inFlight: true, before: again(Orphan), age: time.Hour},
		"gone, was in its cycle":                 {held: entry(a, has), before: again(Expired), age: time.Hour, wantSuspected: Orphan},
		"bound as reserved, first sweep":         {held: entry(a, has), seen: bound(has), wantSuspected: Unconfirmed},
		"bound as reserved, second sweep":        {held: entry(a, has), seen: bound(has), before: again(Unconfirmed), age: confirmAfter, want: Unconfirmed},
		"bound otherwise":                        {held: entry(a, has), seen: bound(cards("n1", 1)), want: Differing},
		"bound elsewhere":                        {held: entry(a, has), seen: bound(cards("n2", 0)), want: Differing},
		"bound elsewhere, its Binding under way": {held: entry(a, has), seen: bound(cards("n2", 0)), inFlight: true},
	}
}

func otherCases() map[string]planCase {
	u := ledger.StageUnknown
	has := cards("n1", 0)
	released := bound(has)
	released.Released = true
	return map[string]planCase{
		"unknown, pod gone":                {held: entry(u, has), before: again(Orphan), age: time.Hour},
		"unknown, pod not bound":           {held: entry(u, has), seen: unbound, before: again(Expired), age: time.Hour},
		"unknown, pod bound elsewhere":     {held: entry(u, has), seen: bound(cards("n2", 0))},
		"nothing held, pod not bound":      {seen: unbound},
		"nothing held, pod without GPUs":   {seen: &Seen{UID: "p", Pod: "ns/p", Node: "n1"}},
		"missing":                          {seen: bound(has), want: Missing},
		"missing, cards unknown":           {seen: bound(unknown("n1", 2)), want: Missing},
		"taken for gone, first sweep":      {seen: released, wantSuspected: Tombstone},
		"taken for gone, second sweep":     {seen: released, before: &Suspicion{Kind: Tombstone}, age: confirmAfter, want: Tombstone},
		"taken for gone, was suspected to": {seen: released, before: again(Orphan), age: time.Hour, wantSuspected: Tombstone},
		"neither":                          {before: again(Orphan), age: time.Hour},
	}
}

func TestPlan(t *testing.T) {
	for group, cases := range map[string]map[string]planCase{"bound": boundCases(), "assumed": assumedCases(), "other": otherCases()} {
		for name, tt := range cases {
			t.Run(group+"/"+name, func(t *testing.T) { tt.check(t) })
		}
	}
}

func (tt *planCase) check(t *testing.T) {
	v := View{Now: start, InFlight: map[ledger.PodUID]bool{"p": tt.inFlight}, Before: map[ledger.PodUID]Suspicion{}}
	if tt.held != nil {
		v.Held = append(v.Held, *tt.held)
	}
	if tt.seen != nil {
		v.Seen = append(v.Seen, *tt.seen)
	}
	if tt.before != nil {
		s := *tt.before
		s.Since = start.Add(-tt.age)
		v.Before["p"] = s
	}
	repairs, after := Plan(v)
	var want []Repair
	if tt.want != "" {
		r := Repair{Kind: tt.want, UID: "p", Pod: "ns/p"}
		if tt.seen != nil && tt.seen.Node != "" {
			r.Node = tt.seen.Node
		} else {
			r.Node = tt.held.Node
		}
		if tt.held != nil {
			r.Revision = tt.held.Revision
		}
		want = append(want, r)
	}
	if d := cmp.Diff(want, repairs, cmpopts.IgnoreFields(Repair{}, "Detail")); d != "" {
		t.Errorf("repairs (-want +got):\n%s", d)
	}
	for _, r := range repairs {
		if r.Detail == "" {
			t.Errorf("%s: no detail", r.Kind)
		}
	}
	if got := after["p"].Kind; got != tt.wantSuspected || len(after) > 1 {
		t.Errorf("suspicions %+v, want %q", after, tt.wantSuspected)
	}
	if tt.wantSuspected != "" && tt.before != nil && tt.before.Kind == tt.wantSuspected && tt.before.Revision == after["p"].Revision &&
		tt.wantSuspected != Edited && !after["p"].Since.Equal(start.Add(-tt.age)) {
		t.Errorf("suspected since %s: a suspicion that stays keeps its age", after["p"].Since)
	}
}

// TestDetail: what is held is said in words, and never without bound.
func TestDetail(t *testing.T) {
	many := cards("n1", 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	mixed := both(cards("n1", 2), 3)
	mixed.Cards = append(mixed.Cards,
		allocate.CardShare{Index: 4, SliceMask: 3, VRAMBytes: 1 << 30}, allocate.CardShare{Index: 5, SliceMask: 1, MIGProfile: "1g.10gb"})
	mixed.UnknownMIG = []ledger.ProfileCount{{Profile: "2g.20gb", Count: 2}}
	tests := map[string]struct {
		h    ledger.Holding
		want string
	}{
		"many":  {many, "card 0, card 1, card 2, card 3, card 4, card 5, card 6, card 7, 2 more"},
		"mixed": {mixed, "card 2, a share of card 4, an instance 1g.10gb of card 5, 3 unknown cards, 2 unknown instances of 2g.20gb"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := describe(&tt.h); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
