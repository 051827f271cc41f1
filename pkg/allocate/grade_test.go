package allocate

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// TestGradeExample is the worked example of the formula.
func TestGradeExample(t *testing.T) {
	a := newGrade(Quality{Bottleneck: topology.FromGBps(300), Remaining: 4, FreeLeft: 4}, 8, false)
	b := newGrade(Quality{Bottleneck: topology.FromGBps(30)}, 8, false)
	scores := normalize(a, b)
	if scores[0] != 87 || scores[1] != 46 {
		t.Errorf("scores are %v, want [87 46]", scores)
	}
}

// TestCaseB135ScoreRange: whatever the nodes offer, scores stay in [0, 100], equal grades give equal scores and a wider
// ring never scores less.
func TestCaseB135ScoreRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spread := rapid.Bool().Draw(t, "spread")
		n := rapid.IntRange(0, 6).Draw(t, "nodes")
		grades := make([]Grade, n)
		qualities := make([]Quality, n)
		for i := range grades {
			total := rapid.IntRange(0, 64).Draw(t, "total")
			qualities[i] = Quality{
				Bottleneck: topology.Bandwidth(rapid.Int64Range(0, 2_000_000).Draw(t, "bottleneck")),
				Remaining:  rapid.IntRange(0, 64).Draw(t, "remaining"),
				Broken:     rapid.IntRange(0, 2).Draw(t, "broken"),
				FreeLeft:   rapid.IntRange(0, total).Draw(t, "free"),
			}
			grades[i] = newGrade(qualities[i], total, spread)
		}
		scores := normalize(grades...)
		for i, s := range scores {
			if s < 0 || s > 100 {
				t.Fatalf("score %d of %+v", s, qualities[i])
			}
			for j := range scores {
				if grades[i] == grades[j] && scores[i] != scores[j] {
					t.Fatalf("equal grades score %d and %d", scores[i], scores[j])
				}
				same := grades[i]&unbroken == grades[j]&unbroken && grades[i].packing() == grades[j].packing() && grades[i].keep() == grades[j].keep()
				if same && grades[i].Bottleneck() > grades[j].Bottleneck() && scores[i] < scores[j] {
					t.Fatalf("ring of %s scores %d, ring of %s scores %d", qualities[i].Bottleneck, scores[i], qualities[j].Bottleneck, scores[j])
				}
			}
		}
	})
}

// normalize returns the final scores of nodes that are looked at together.
func normalize(grades ...Grade) []int64 {
	var widest int64
	for _, g := range grades {
		widest = max(widest, g.Bottleneck())
	}
	out := make([]int64, len(grades))
	for i, g := range grades {
		out[i] = g.Final(widest)
	}
	return out
}

// TestShareJoinsSharesOnAnotherNode: among nodes without a ring, one where a share breaks no idle card wins.
func TestShareJoinsSharesOnAnotherNode(t *testing.T) {
	joins := newGrade(Quality{FreeLeft: 7, Remaining: 7}, 8, false)
	breaks := newGrade(Quality{Broken: 1, FreeLeft: 0}, 8, false)
	if scores := normalize(joins, breaks, Unfit); scores[0] <= scores[1] || scores[2] != 0 {
		t.Errorf("scores are %v: joining a shared card must win, an unfit node has 0", scores)
	}
}
