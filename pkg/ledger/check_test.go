package ledger

import (
	"strings"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestCheckFinds breaks a sound ledger in one place at a time: Check has to say so.
func TestCheckFinds(t *testing.T) {
	entry := func(l *Ledger) *node { return l.nodes.node("n1") }
	change := func(edit func(*NodeGPUAllocation)) func(*Ledger) {
		return func(l *Ledger) {
			broken := entry(l).state.Load().copyPlain()
			edit(broken)
			entry(l).state.Store(broken)
		}
	}
	tests := map[string]struct {
		damage func(*Ledger)
		want   string
	}{
		"nothing":             {func(*Ledger) {}, ""},
		"held card is free":   {change(func(a *NodeGPUAllocation) { a.Free = a.Free.With(0) }), "published"},
		"free card is not":    {change(func(a *NodeGPUAllocation) { a.Free = a.Free.Without(5) }), "published"},
		"closed card":         {change(func(a *NodeGPUAllocation) { a.Closed = topology.SetOf(5) }), "published"},
		"use of nobody":       {change(func(a *NodeGPUAllocation) { a.Use[5].VRAMBytes = 1 }), "use without a holder"},
		"negative use":        {change(func(a *NodeGPUAllocation) { a.Use[0].VRAMBytes = -1 }), "negative"},
		"too much memory":     {change(func(a *NodeGPUAllocation) { a.Use[0].VRAMBytes *= 2 }), "bytes are held"},
		"too much compute":    {change(func(a *NodeGPUAllocation) { a.Use[0].ComputeMilli++ }), "compute 1001"},
		"quarantine unclosed": {change(func(a *NodeGPUAllocation) { a.Quarantined = true }), "in quarantine"},
		"pods":                {change(func(a *NodeGPUAllocation) { a.Pods = 7 }), "published"},
		"generation 0":        {change(func(a *NodeGPUAllocation) { a.Generation = 0 }), "generation 0"},
		"generation to come":  {change(func(a *NodeGPUAllocation) { a.Generation = 1 << 60 }), "generation"},
		"not published":       {func(l *Ledger) { entry(l).state.Store(nil) }, "known is true"},
		"other cards":         {func(l *Ledger) { l.pods["p"].Cards[0].Index, l.pods["p"].Cards[0].UUID = 3, "" }, "published"},
		"pod without node":    {func(l *Ledger) { l.pods["p"].node = nil }, "disagree"},
		"pod of another node": {func(l *Ledger) { l.pods["p"].Node = "n2" }, "disagree"},
		"pod not listed":      {func(l *Ledger) { entry(l).pods = nil }, "disagree"},
		"pod not recorded":    {func(l *Ledger) { delete(l.pods, "p") }, "not recorded"},
		"wrong stage":         {func(l *Ledger) { l.pods["p"].stage = 9 }, "disagree"},
		"stages do not add":   {func(l *Ledger) { l.staged[StageBound]++ }, "by stage"},
		"released pod holds":  {func(l *Ledger) { l.tombstones.add("p") }, "released"},
		"tombstones":          {func(l *Ledger) { l.tombstones.count++ }, "tombstones"},
		"entry left behind":   {func(l *Ledger) { l.entry("n9") }, "neither known nor in use"},
		"change unpublished":  {func(l *Ledger) { l.touch(entry(l)) }, "wait to be published"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f, cards := newFixture(t), cardsN8s("A")
			f.node("n1", cards)
			f.must(f.l.Adopt(holdWhole("p", "n1", cards, 0)))
			f.must(f.l.Adopt(Holding{UID: "q", Node: "n1", Cards: []allocate.CardShare{share(cards[1], 1, 0, 1280*mib)}}))
			tc.damage(f.l)
			err := f.l.Check()
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
