package gang

import (
	"slices"
	"testing"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// TestHalfBoundGangOfAnotherProcess: a process that died between the first bind and the others leaves a gang that holds
// GPUs and cannot run. The next one completes it, or gives its members up.
func TestHalfBoundGangOfAnotherProcess(t *testing.T) {
	start := time.Unix(1000, 0)
	config := Config{PermitTimeout: time.Minute, PlanTTL: 5 * time.Second, BackoffInitial: time.Second, BackoffMax: 10 * time.Second}
	tests := map[string]struct {
		ran, together bool
		want          bool // evicted after the timeout
	}{
		"bound by a plan, never whole":  {false, true, true},
		"whole once, and lost members":  {true, true, false},
		"bound by somebody else, alone": {false, false, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := New("ns/g", config, Spec{MinMember: 3})
			s.Recorded(0, tt.ran)
			var all []Action
			do := func(e Event, at time.Time) {
				var actions []Action
				s, actions = Decide(s, e, at)
				all = append(all, actions...)
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
			}
			do(MemberSeen{Sighting{UID: "a", Name: "a", Node: "n1", Together: tt.together}}, start)
			do(MemberSeen{Sighting{UID: "b", Name: "b"}}, start)
			do(MemberSeen{Sighting{UID: "c", Name: "c"}}, start)
			if v := s.Admit("b", start); v.Kind != VerdictPlan || v.Need != 2 {
				t.Fatalf("verdict %+v, want a plan of the two that are missing", v)
			}
			do(PlanFailed{Reason: "gang ns/g: they do not fit"}, start)
			do(Tick{}, start.Add(2*time.Minute))
			evicted := slices.ContainsFunc(all, func(a Action) bool {
				e, ok := a.(Evict)
				return ok && slices.Contains(e.Pods, ledger.PodUID("a"))
			})
			if evicted != tt.want {
				t.Errorf("evicted %t, want %t", evicted, tt.want)
			}
		})
	}
}
