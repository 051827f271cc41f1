package record

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// boundToEight is a bound pod of eight cards, whose record recent keeps.
func boundToEight(b *testing.B, recent *Recent) *v1.Pod {
	b.Helper()
	var cards []allocate.CardShare
	for i := range 8 {
		cards = append(cards, whole(i))
	}
	pod := podOf(box("main", "nvidia.com/gpu", "8"))
	annotations, err := Annotations(pod, "n1", given("main", cards...), Options{Recent: recent})
	if err != nil {
		b.Fatal(err)
	}
	return bind(pod, "n1", annotations)
}

// BenchmarkParseHolding is the cost of one bound pod of eight cards at a restart.
func BenchmarkParseHolding(b *testing.B) {
	pod := boundToEight(b, nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHolding(pod); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkRecentCharge is the cost of one bound pod of eight cards that this process bound itself.
func BenchmarkRecentCharge(b *testing.B) {
	recent := NewRecent()
	pod := boundToEight(b, recent)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := Charge(pod, recent); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkAnnotations is the cost of one bind with every dialect.
func BenchmarkAnnotations(b *testing.B) {
	n := node(b)
	pod := podOf(box("main", "nvidia.com/gpu", "2"))
	choice := given("main", whole(0), whole(1))
	o := Options{Dialects: []string{"hami", "koordinator", "volcano"}, Now: now, Topology: n}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Annotations(pod, "n1", choice, o); err != nil {
			b.Fatal(err)
		}
	}
}
