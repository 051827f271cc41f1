package topology

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestShapeFingerprint changes one thing of a node: some are part of the shape, others are not.
func TestShapeFingerprint(t *testing.T) {
	base := newNode(t, rich(t)).Shape()
	for name, tc := range map[string]struct {
		change func(*Spec)
		same   bool
	}{
		"nothing":   {change: func(*Spec) {}, same: true},
		"UUID":      {change: func(s *Spec) { s.Cards[0].UUID = "GPU-other" }, same: true},
		"bus id":    {change: func(s *Spec) { s.Cards[0].BusID = "x" }, same: true},
		"PCIe name": {change: func(s *Spec) { s.Cards[0].PCIeSwitch, s.Cards[0].PCIeRoot = "", "" }, same: true},
		"memory":    {change: func(s *Spec) { s.Cards[0].VRAMBytes = 1 << 30 }, same: true},
		"health":    {change: func(s *Spec) { s.Cards[0].Healthy, s.Cards[1].Healthy = false, true }, same: true},
		"fault":     {change: func(s *Spec) { s.Cards[0].Fault = "x" }, same: true},
		"MIG":       {change: func(s *Spec) { s.Cards[2].MIGEnabled, s.Cards[2].MIG = false, nil }, same: true},
		"source":    {change: func(s *Spec) { s.Source = "x" }, same: true},
		"product of equal rates": {change: func(s *Spec) {
			for i := range s.Cards {
				s.Cards[i].Product = "NVIDIA-H200"
			}
		}, same: true},
		"numbers of the NUMA nodes": {change: func(s *Spec) {
			for i := range s.Cards {
				s.Cards[i].NUMA = 7 - 4*s.Cards[i].NUMA
			}
		}, same: true},
		"adapter's name":    {change: func(s *Spec) { s.NICs[0].Name = "x" }, same: true},
		"a farther adapter": {change: func(s *Spec) { s.NICs[1].Links[0] = LinkNODE }, same: true},

		"a link":         {change: func(s *Spec) { s.Links[0][2], s.Links[2][0] = Link{Type: LinkNODE}, Link{Type: LinkNODE} }},
		"NVLinks":        {change: func(s *Spec) { s.Links[0][1].NVLinks, s.Links[1][0].NVLinks = 6, 6 }},
		"NUMA grouping":  {change: func(s *Spec) { s.Cards[1].NUMA = 1 }},
		"NUMA unknown":   {change: func(s *Spec) { s.Cards[0].NUMA, s.Cards[1].NUMA = NUMAUnknown, NUMAUnknown }},
		"adapter nearer": {change: func(s *Spec) { s.NICs[1].Links[3] = LinkPXB }},
		"no adapters":    {change: func(s *Spec) { s.NICs = nil }},
		"NVSwitch":       {change: func(s *Spec) { s.NVSwitch = true }},
		"product": {change: func(s *Spec) {
			for i := range s.Cards {
				s.Cards[i].Product = "NVIDIA L4"
			}
		}},
		"a card less": {change: func(s *Spec) {
			s.Cards = s.Cards[:3]
			s.Links = s.Links[:3]
			for i := range s.Links {
				s.Links[i] = s.Links[i][:3]
			}
			for i := range s.NICs {
				s.NICs[i].Links = s.NICs[i].Links[:3]
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := rich(t)
			tc.change(&s)
			got := newNode(t, s).Shape()
			if same := got.Fingerprint() == base.Fingerprint(); same != tc.same {
				t.Errorf("same fingerprint: %v, want %v", same, tc.same)
			}
			if same := cmp.Equal(got, base, cmp.AllowUnexported(Shape{})); same != tc.same {
				t.Errorf("same content: %v, want %v", same, tc.same)
			}
		})
	}
}

func TestShapeContent(t *testing.T) {
	s := rich(t)
	s.Cards[0].NUMA, s.Cards[1].NUMA, s.Cards[2].NUMA, s.Cards[3].NUMA = 9, NUMAUnknown, 4, 9
	shape := newNode(t, s).Shape()
	type card struct {
		NUMA int
		NIC  LinkType
	}
	want := []card{{0, LinkPIX}, {NUMAUnknown, LinkPXB}, {1, LinkNODE}, {0, LinkUnknown}}
	var got []card
	for i := range shape.Len() {
		got = append(got, card{shape.NUMA(i), shape.NearestNIC(i)})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
