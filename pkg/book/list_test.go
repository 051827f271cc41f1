package book

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestGangs lists groups in every phase that a bench reaches.
func TestGangs(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("full", 2)
	b.create(b.member("full", "full-0", kit.GPUs(4)), b.member("full", "full-1", kit.GPUs(2)))
	b.run()
	b.group("big", 2)
	b.create(b.member("big", "big-0", kit.GPUs(8)), b.member("big", "big-1", kit.GPUs(8)))
	b.run()
	b.group("short", 3)
	b.create(b.member("short", "short-0", kit.GPUs(1)))
	b.group("singles", 0)
	b.group("bad", 1, func(g *podgroup.Group) { g.Invalid = "minMember is -1" })
	b.create(b.member("nobody", "nobody-0", kit.GPUs(1)))
	b.run()
	gangs, more := b.Gangs(GroupKey{}, 100, 100)
	type line struct {
		Name, Phase                     string
		MinMember, Members, Held, Bound int
		PlanID                          string
		Planned                         []ListedMember
		HasReason, HasUID               bool
	}
	var got []line
	for _, g := range gangs {
		got = append(got, line{g.Key.Name, g.Phase, g.MinMember, g.Members, g.Held, g.Bound, g.PlanID, g.Planned, g.Reason != "", g.UID != ""})
	}
	want := []line{
		{Name: "bad", Phase: PhaseInvalid, MinMember: 1, HasReason: true, HasUID: true},
		{Name: "big", Phase: "forming", MinMember: 2, Members: 2, HasReason: true, HasUID: true},
		{Name: "full", Phase: "running", MinMember: 2, Members: 2, Held: 2, Bound: 2, HasUID: true},
		{Name: "nobody", Phase: PhaseAbsent, Members: 1, HasReason: true},
		{Name: "short", Phase: "forming", MinMember: 3, Members: 1, HasReason: true, HasUID: true},
		{Name: "singles", Phase: PhaseSingles, HasUID: true},
	}
	if d := cmp.Diff(want, got); d != "" || more {
		t.Errorf("gangs, more %t (-want +got):\n%s", more, d)
	}
	wantPhases := map[string]int{
		"forming": 2, "planned": 0, "admitting": 0, "running": 1, "broken": 0, "finished": 0, PhaseAbsent: 1, PhaseInvalid: 1, PhaseSingles: 1,
	}
	if d := cmp.Diff(wantPhases, b.Phases()); d != "" {
		t.Errorf("phases (-want +got):\n%s", d)
	}
}

// TestGangsShowsPlans: what is held for members that are not bound, by name.
func TestGangsShowsPlans(t *testing.T) {
	b := newBench(t)
	b.node("n1", kit.N8s)
	b.group("g", 2)
	second, first := b.member("g", "g-1", kit.GPUs(1)), b.member("g", "g-0", kit.GPUs(1))
	b.create(first, second)
	b.cycle(first)
	gangs, _ := b.Gangs(GroupKey{}, 10, 100)
	if len(gangs) != 1 {
		t.Fatalf("%d gangs", len(gangs))
	}
	want := []ListedMember{{Pod: "g-0", Node: "n1", Rank: gangs[0].Planned[0].Rank}, {Pod: "g-1", Node: "n1", Rank: gangs[0].Planned[1].Rank}}
	if d := cmp.Diff(want, gangs[0].Planned); d != "" || gangs[0].PlanID == "" || gangs[0].Held != 2 || gangs[0].Bound != 0 {
		t.Errorf("plan of %+v (-want +got):\n%s", gangs[0], d)
	}
}

// TestGangsPages: pages of every size give every group once, in order; a page ends with the group that reaches its planned
// members.
func TestGangsPages(t *testing.T) {
	b := newBench(t)
	const groups = 12
	var want []string
	for i := range groups {
		name := fmt.Sprintf("g-%02d", i)
		b.group(name, 2)
		want = append(want, name)
	}
	for limit := 1; limit <= groups+1; limit++ {
		var got []string
		var after GroupKey
		for more := true; more; {
			var page []Listed
			page, more = b.Gangs(after, limit, 1)
			for _, g := range page {
				got, after = append(got, g.Key.Name), g.Key
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, d)
		}
	}
	b.node("n1", kit.N8s)
	for i := range 4 {
		pods := b.members(want[i], 2, kit.GPUs(1))
		b.create(pods...)
		b.cycle(pods[0])
	}
	planned := 0
	page, more := b.Gangs(GroupKey{}, groups, 3)
	for _, g := range page {
		planned += len(g.Planned)
	}
	if planned != 4 || len(page) != 2 || !more {
		t.Errorf("%d groups with %d planned members, more %t; want 2 with 4 and more", len(page), planned, more)
	}
}

func TestLater(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{{"u-1", "", true}, {"u-2", "u-1", true}, {"u-10", "u-9", true}, {"u-9", "u-10", false}, {"u-1", "u-1", false}} {
		if got := later(tt.a, tt.b); got != tt.want {
			t.Errorf("later(%q, %q) is %t", tt.a, tt.b, got)
		}
	}
}
