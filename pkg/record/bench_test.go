package record

import (
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// BenchmarkParseHolding is the cost of one bound pod of eight cards at a restart.
func BenchmarkParseHolding(b *testing.B) {
	var cards []allocate.CardShare
	for i := range 8 {
		cards = append(cards, whole(i))
	}
	pod := podOf(box("main", "nvidia.com/gpu", "8"))
	annotations, err := Annotations(pod, "n1", given("main", cards...), Options{})
	if err != nil {
		b.Fatal(err)
	}
	pod = bind(pod, "n1", annotations)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseHolding(pod); err != nil {
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
