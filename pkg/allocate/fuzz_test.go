package allocate_test

import (
	"strings"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// source deals out the fuzzer's bytes; it yields zeros at the end.
type source struct{ data []byte }

func (s *source) next() int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b)
}

func (s *source) node(t *testing.T) *topology.Node {
	n := s.next() % 19
	spec := topology.Spec{Cards: make([]topology.Card, n), NVSwitch: s.next()%4 == 0}
	for i := range spec.Cards {
		c := &spec.Cards[i]
		b := s.next()
		c.VRAMBytes, c.NUMA, c.Healthy, c.MIGEnabled = int64(b%5)*100, b%4-1, b%16 != 15, b%8 == 7
		for k := range b % 8 {
			if c.MIGEnabled {
				c.MIG = append(c.MIG, topology.MIGInstance{Profile: []string{"1g", "2g"}[k%2], Start: k, Size: 1, VRAMBytes: 10})
			}
		}
	}
	spec.Links = matrix(n, func(int, int) topology.Link {
		l := topology.Link{Type: topology.LinkType(s.next() % 7)}
		if l.Type == topology.LinkNVLink {
			l.NVLinks = uint8(1 + s.next()%3)
		}
		return l
	})
	node, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatalf("topology.New: %v", err)
	}
	return node
}

func (s *source) request() *allocate.Request {
	r := &allocate.Request{NUMA: allocate.NUMAPolicy(s.next() % 4), NIC: allocate.NICPolicy(s.next() % 4)}
	phase := allocate.PhaseInit
	for range s.next() % 6 {
		b := s.next()
		c := allocate.Claim{Container: string(rune('a' + b%5)), Kind: allocate.Kind(b % 4), Count: s.next()%5 - b%16/15}
		switch b := s.next(); {
		case b%3 == 0:
			phase = allocate.PhaseMain
		case phase != allocate.PhaseMain:
			phase = allocate.Phase(b % 3)
		}
		c.Phase = phase
		switch c.Kind {
		case allocate.KindShare:
			c.VRAMBytes, c.ComputeMilli = int64(s.next())*2-20, int32(s.next()%12)*100
			if s.next()%3 == 0 {
				c.VRAMBytes, c.FractionPPB = 0, int64(s.next())*5_000_000
			}
		case allocate.KindMIG:
			c.Profile = []string{"1g", "2g", "9g"}[s.next()%3]
		case allocate.KindWhole:
		}
		r.Claims = append(r.Claims, c)
	}
	return r
}

// FuzzChoose: no input panics; Choose, Fits and Assess agree; a choice can be held and is accounted for by containers; a
// rejection counts every card.
func FuzzChoose(f *testing.F) {
	f.Add([]byte("\x08\x01aaaaaaaaAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"))
	f.Add([]byte(strings.Repeat("\x07\x12\x80\x33", 60)))
	f.Add([]byte{4, 1, 4, 7, 15, 9, 1, 2, 3, 4, 5, 6, 0, 0, 3, 2, 1, 1, 50, 3, 1, 9, 1, 3, 2, 2})
	c := allocate.NewChooser()
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{data: data}
		v := emptyView(s.node(t))
		often, seldom := s.next(), s.next()
		v.Closed = topology.GPUSet(often&seldom) & v.Topology.All()
		refresh(v)
		for range 6 {
			checkRequest(t, c, v, s.request())
		}
	})
}

func checkRequest(t *testing.T, c *allocate.Chooser, v *allocate.View, r *allocate.Request) {
	t.Helper()
	choice, rej, err := c.Choose(v, r)
	fits := c.Fits(v, r)
	set, quality, rej2, err2 := c.Assess(v, r)
	if (fits == nil) != (rej == nil && err == nil) || (rej2 == nil) != (rej == nil) || (err2 == nil) != (err == nil) {
		t.Fatalf("%+v: Choose %v %v, Fits %v, Assess %v %v", r, rej, err, fits, rej2, err2)
	}
	if err != nil {
		return
	}
	if rej != nil {
		if rej.Cards() != v.Topology.Len() || rej.String() == "" {
			t.Fatalf("%+v: rejection %q counts %d of %d cards", r, rej, rej.Cards(), v.Topology.Len())
		}
		return
	}
	if set != choice.Set() || quality != choice.Quality {
		t.Fatalf("%+v: Choose %v %+v, Assess %v %+v", r, choice.Set(), choice.Quality, set, quality)
	}
	checkAccounts(t, v, choice)
	give(t, v, choice.Cards)
	if err := v.Check(); err != nil {
		t.Fatal(err)
	}
}

// checkAccounts checks that the pod's shares are in order and that no container has more of a card than the pod.
func checkAccounts(t *testing.T, v *allocate.View, choice allocate.Choice) {
	held := make([]allocate.CardUse, v.Topology.Len())
	for i, s := range choice.Cards {
		if i > 0 {
			last := choice.Cards[i-1]
			if s.Index < last.Index || s.Index == last.Index && (s.MIGProfile == "" || s.SliceMask <= last.SliceMask) {
				t.Fatalf("shares out of order: %+v", choice.Cards)
			}
		}
		allocate.Occupy(&held[s.Index], s)
	}
	for _, c := range choice.Containers {
		used := make([]allocate.CardUse, len(held))
		for _, s := range c.Cards {
			allocate.Occupy(&used[s.Index], s)
		}
		for i, u := range used {
			if u.VRAMBytes > held[i].VRAMBytes || u.ComputeMilli > held[i].ComputeMilli || u.SliceMask&^held[i].SliceMask != 0 {
				t.Fatalf("container %s has %+v of card %d, the pod %+v", c.Name, u, i, held[i])
			}
		}
	}
}
