package gang

import (
	"fmt"
	"testing"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// BenchmarkLife takes a gang through its whole life: seen, planned, reserved, bound, running, succeeded, deleted. Its
// metric ns/member should not depend on the number of members.
func BenchmarkLife(b *testing.B) {
	for _, members := range []int{64, 512, 4096} {
		b.Run(fmt.Sprint(members), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				live(b, members)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(members), "ns/member")
		})
	}
}

// BenchmarkReserved is one event in the middle of the life of a gang of 4096: a member reaches Permit.
func BenchmarkReserved(b *testing.B) {
	planned, placed := planOf(b, 4096)
	s, i := planned.Clone(), 0
	b.ReportAllocs()
	for b.Loop() {
		if i == len(placed)-1 {
			b.StopTimer()
			s, i = planned.Clone(), 0
			b.StartTimer()
		}
		Decide(s, MemberReserved(placed[i]), epoch)
		s.Next()
		i++
	}
}

// BenchmarkAdmitBackingOff is what a member of a gang that backs off costs.
func BenchmarkAdmitBackingOff(b *testing.B) {
	s, placed := planOf(b, 4096)
	Decide(s, NodeGone{placed[7].Node}, epoch)
	b.ReportAllocs()
	for b.Loop() {
		if v := s.Admit(placed[4000].Pod, epoch); v.Kind != VerdictWait {
			b.Fatal(v.Kind)
		}
	}
}

// planOf returns a gang whose members are all planned.
func planOf(tb testing.TB, members int) (*State, []Placed) {
	config := Config{PermitTimeout: time.Minute, PlanTTL: time.Minute, BackoffInitial: time.Second, BackoffMax: time.Minute}
	s := New("ns/a", config, Spec{MinMember: members})
	for i := range members {
		Decide(s, MemberSeen{sightingOf(i)}, epoch)
	}
	v := s.Admit(sightingOf(members/2).UID, epoch)
	if v.Kind != VerdictPlan || len(v.Candidates) != members {
		tb.Fatalf("%s %s", v.Kind, v.Reason)
	}
	made := PlanMade{ID: "plan"}
	for i, uid := range v.Candidates {
		made.Members = append(made.Members, Placed{uid, ledger.NodeName(fmt.Sprintf("n%d", i/8))})
	}
	Decide(s, made, epoch)
	return s, made.Members
}

// sightingOf returns members in an order other than theirs.
func sightingOf(i int) Sighting {
	name := fmt.Sprintf("a-%d", i)
	return Sighting{UID: ledger.PodUID(name), Name: name, Rank: (i * 2654435761) % 100003}
}

func live(tb testing.TB, members int) {
	s, placed := planOf(tb, members)
	for _, p := range placed {
		Decide(s, MemberReserved(p), epoch)
		s.Next()
	}
	last := placed[members-1]
	Decide(s, MemberBound(last), epoch)
	for _, p := range placed[:members-1] {
		Decide(s, MemberBound(p), epoch)
	}
	if s.Phase() != PhaseRunning {
		tb.Fatalf("%s, want running", s.Phase())
	}
	for i := range members {
		seen := sightingOf(i)
		seen.Node, seen.Succeeded = "n0", true
		Decide(s, MemberSeen{seen}, epoch)
		Decide(s, MemberGone{seen.UID}, epoch)
	}
	if s.Phase() != PhaseFinished || s.Counts().Members != 0 {
		tb.Fatalf("%s, want finished and empty", s.Phase())
	}
}
