package gang

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

func TestBackoff(t *testing.T) {
	tests := map[string]struct {
		initial, max time.Duration
		want         []time.Duration // after 1, 2, 3 ... failures
	}{
		"doubles up to the maximum": {10 * time.Second, time.Minute, []time.Duration{
			10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute,
		}},
		"initial beyond the maximum": {time.Hour, time.Minute, []time.Duration{time.Minute, time.Minute}},
		"none":                       {0, time.Minute, []time.Duration{0, 0, 0}},
		"no overflow": {math.MaxInt64/2 + 1, math.MaxInt64, []time.Duration{
			math.MaxInt64/2 + 1, math.MaxInt64, math.MaxInt64, math.MaxInt64,
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got []time.Duration
			for i := range tc.want {
				got = append(got, backoff(Config{BackoffInitial: tc.initial, BackoffMax: tc.max}, i+1))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckNames holds that Check sees what it is there for.
func TestCheckNames(t *testing.T) {
	tests := map[string]struct {
		damage func(*State)
		want   string
	}{
		"a count that drifted":         {func(s *State) { s.tally.alive-- }, "counts are"},
		"a stage changed past a count": {func(s *State) { s.members["a-3"].stage = StageBound }, "counts are"},
		"a member under another UID":   {func(s *State) { s.members["a-0"].seen.UID = "x" }, "is filed as"},
		"fewer ended than present":     {func(s *State) { s.ended = -1 }, "ended"},
		"a pending member not queued":  {func(s *State) { s.pending = s.pending[:0] }, "0 of them queued"},
		"a slot that is another's":     {func(s *State) { s.pending[0].slot = 7 }, "its slot 7"},
		"a queue out of order": {func(s *State) {
			s.pending.Swap(0, 1)
		}, "before its parent"},
		"held without a plan":     {func(s *State) { s.plan = nil }, "without a plan"},
		"held while backing off":  {func(s *State) { s.retryAt = epoch }, "backs off"},
		"held after the group":    {func(s *State) { s.gone = true }, "outlived"},
		"canary that never asked": {func(s *State) { s.plan.canary = "a-0" }, "not admitted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := New("ns/a", Config{}, Spec{MinMember: 3})
			for _, uid := range []string{"a-0", "a-1", "a-2", "a-3", "a-4"} {
				Decide(s, MemberSeen{Sighting{UID: ledger.PodUID(uid), Name: uid, Rank: -1}}, epoch)
			}
			Decide(s, PlanMade{ID: "plan", Members: []Placed{{"a-0", "n0"}, {"a-1", "n1"}, {"a-2", "n2"}}}, epoch)
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			tc.damage(s)
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Check: %v, want %q", err, tc.want)
			}
		})
	}
}
