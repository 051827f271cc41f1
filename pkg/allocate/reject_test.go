package allocate_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// mixedNode has a card of every kind: 0 and 1 sick, 2 in MIG mode with seven 1g.5gb, 3 of unknown memory, 4 small, the
// rest of 40 GiB. The cards 0 to 4 are on NUMA node 0, 5 to 7 on 1, 8 on an unknown one. A NIC is near 5 and 6.
func mixedNode(tb testing.TB) *topology.Node {
	spec := topology.Spec{Cards: cards(9, 40*gib), NVSwitch: true}
	spec.Cards[0].Fault, spec.Cards[1].Fault = "Xid 79", "Xid 48"
	spec.Cards[2].MIGEnabled, spec.Cards[2].MIG = true, sevenths()
	spec.Cards[3].VRAMBytes, spec.Cards[4].VRAMBytes = 0, 10*gib
	spec.Cards[8].NUMA = topology.NUMAUnknown
	nic := topology.NIC{Links: make([]topology.LinkType, 9)}
	nic.Links[5], nic.Links[6], nic.Links[7] = topology.LinkPIX, topology.LinkPXB, topology.LinkPHB
	spec.NICs = []topology.NIC{nic}
	return node(tb, spec)
}

// busyView is mixedNode where 5 is held whole, 6 has 12 GiB and 3/10 of its compute left, 7 is closed.
func busyView(tb testing.TB) *allocate.View {
	v := emptyView(mixedNode(tb))
	allocate.Occupy(&v.Use[5], wholeShare(v.Topology, 5))
	allocate.Occupy(&v.Use[6], allocate.CardShare{Index: 6, VRAMBytes: 28 * gib, ComputeMilli: 700, SliceMask: 1<<44 - 1})
	v.Closed = topology.SetOf(7)
	refresh(v)
	return v
}

func with(r *allocate.Request, change func(*allocate.Request)) *allocate.Request {
	change(r)
	return r
}

func TestRejectionSentences(t *testing.T) {
	t.Parallel()
	require := func(r *allocate.Request) { r.NUMA = allocate.NUMARequire }
	near := func(r *allocate.Request) { r.NIC = allocate.NICRequire }
	compute := func(milli int32) func(*allocate.Request) {
		return func(r *allocate.Request) { r.Claims[0].ComputeMilli = milli }
	}
	v := busyView(t)
	migClaim := func(name string, n int) allocate.Claim {
		return allocate.Claim{Container: name, Kind: allocate.KindMIG, Count: n, Profile: "1g.5gb"}
	}
	for name, tc := range map[string]struct {
		v             *allocate.View
		r             *allocate.Request
		want          string
		wantPermanent bool
	}{
		"whole":               {v, whole(4), "needs 4 whole GPUs, 3 are free (2 unhealthy, 1 closed, 1 MIG mode, 2 used)", false},
		"whole for ever":      {v, whole(7), "needs 7 whole GPUs, 3 are free (2 unhealthy, 1 closed, 1 MIG mode, 2 used)", true},
		"whole, NUMA":         {v, with(whole(3), require), "needs 3 whole GPUs on one NUMA node, 2 are free (2 unhealthy, 1 closed, 1 MIG mode, 2 used, 1 wrong NUMA)", false},
		"whole, NIC":          {v, with(whole(1), near), "needs 1 whole GPU with a NIC at PIX or PXB, none is free (2 unhealthy, 1 closed, 1 MIG mode, 2 used, 3 far NIC)", false},
		"share":               {v, share(20*gib, 2), "needs 20.0 GiB of each of 2 GPUs, 1 has room; the largest free part is 40.0 GiB (2 unhealthy, 1 closed, 1 MIG mode, 1 unknown memory, 1 too small, 2 used)", false},
		"share for ever":      {v, share(41*gib, 1), "needs 41.0 GiB of 1 GPU: no card has 41.0 GiB free; the largest free part is 40.0 GiB (2 unhealthy, 1 closed, 1 MIG mode, 1 unknown memory, 4 too small)", true},
		"fraction":            {v, with(share(0, 3), func(r *allocate.Request) { r.Claims[0].FractionPPB = 500_000_000 }), "needs 50% of each of 3 GPUs, 2 have room; the largest free part is 40.0 GiB (2 unhealthy, 1 closed, 1 MIG mode, 1 unknown memory, 2 used)", false},
		"compute":             {v, with(share(5*gib, 3), compute(400)), "needs 5.0 GiB and 400/1000 of the compute of each of 3 GPUs, 2 have room; the largest free part is 40.0 GiB (2 unhealthy, 1 closed, 1 MIG mode, 1 unknown memory, 1 used, 1 no compute left)", false},
		"small share":         {emptyView(flat(t, 1, 1000)), share(2000, 1), "needs 2000 B of 1 GPU: no card has 2000 B free; the largest free part is 1000 B (1 too small)", true},
		"fragments":           {fragments(t), share(20*gib, 1), "needs 20.0 GiB of 1 GPU: no card has 20.0 GiB free; the largest free part is 12.0 GiB (2 used)", false},
		"MIG":                 {v, mig("1g.5gb", 8), "needs 8 MIG instances 1g.5gb, 7 are free (2 unhealthy, 1 closed, 5 not MIG)", true},
		"MIG, no profile":     {v, mig("2g.10gb", 1), "needs 1 MIG instance 2g.10gb, none is free (2 unhealthy, 1 closed, 5 not MIG, 1 no such MIG profile)", true},
		"MIG, own claims":     {v, claims(migClaim("a", 7), migClaim("b", 2)), `container "b" needs 2 MIG instances 1g.5gb, none is free (2 unhealthy, 1 closed, 5 not MIG, 1 taken by this pod's other claims)`, true},
		"init containers":     {emptyView(flat(t, 1, 10*gib)), claims(shareClaim("a", allocate.PhaseInit, 9*gib), shareClaim("b", allocate.PhaseInit, 11*gib)), `container "b" needs 11.0 GiB of 1 GPU: no card has 11.0 GiB free; the largest free part is 10.0 GiB (1 too small)`, true},
		"compute only":        {emptyView(flat(t, 1, gib)), claims(wholeClaim("w", 0, 1), with(share(100*mib, 1), compute(1)).Claims[0]), `container "main" needs 100.0 MiB and 1/1000 of the compute of 1 GPU: no card has 100.0 MiB free; the largest free part is 0 B (1 taken by this pod's other claims)`, true},
		"no compute":          {promised(t), with(share(100*mib, 1), compute(1)), "needs 100.0 MiB and 1/1000 of the compute of 1 GPU: no card has room (1 no compute left)", false},
		"long name":           {emptyView(flat(t, 1, gib)), claims(wholeClaim("w", 0, 1), shareClaim(strings.Repeat("n", 99), 0, 1)), `container "` + strings.Repeat("n", 64) + `" needs 1 B of 1 GPU: no card has 1 B free; the largest free part is 0 B (1 taken by this pod's other claims)`, true},
		"mixed, NUMA":         {v, with(claims(wholeClaim("w", 0, 3), shareClaim("s", 0, 1)), require), "needs 3 whole GPUs on one NUMA node, 2 are free (2 unhealthy, 1 closed, 1 MIG mode, 2 used, 1 wrong NUMA)", true},
		"no cards":            {emptyView(node(t, topology.Spec{})), whole(1), "needs 1 whole GPU, the node has no GPU", true},
		"no cards, NUMA":      {emptyView(node(t, topology.Spec{})), with(share(1, 1), require), "needs 1 B of 1 GPU on one NUMA node, the node has no GPU", true},
		"nothing known":       {&allocate.View{}, whole(1), "nothing is known of the node's GPUs", true},
		"own claims":          {emptyView(flat(t, 1, gib)), claims(wholeClaim("w", 0, 1), shareClaim("s", 0, 1)), `container "s" needs 1 B of 1 GPU: no card has 1 B free; the largest free part is 0 B (1 taken by this pod's other claims)`, true},
		"own whole and whole": {emptyView(flat(t, 1, gib)), claims(shareClaim("s", 0, 1), wholeClaim("w", 0, 2)), "needs 2 whole GPUs, 1 is free", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rej := mustReject(t, allocate.NewChooser(), tc.v, tc.r)
			if rej.String() != tc.want || rej.Permanent != tc.wantPermanent {
				t.Errorf("got  %q permanent %v\nwant %q permanent %v", rej, rej.Permanent, tc.want, tc.wantPermanent)
			}
			if fits := allocate.NewChooser().Fits(tc.v, tc.r); fits.String() != tc.want {
				t.Errorf("Fits says %q", fits)
			}
		})
	}
}

func TestShortRejections(t *testing.T) {
	t.Parallel()
	c := allocate.NewChooser()
	for name, tc := range map[string]struct {
		v    *allocate.View
		r    *allocate.Request
		want string
	}{
		"whole":      {busyView(t), whole(4), "3 of 4 whole GPUs free"},
		"share":      {fragments(t), share(20*gib, 1), "room for 20.0 GiB on 0 of 1 GPU"},
		"no compute": {promised(t), share(100*mib, 1), "room for 100.0 MiB on 0 of 1 GPU"},
		"no cards":   {emptyView(node(t, topology.Spec{})), whole(1), "0 of 1 whole GPU free"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustReject(t, c, tc.v, tc.r).Short(); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

// promised has memory free on a card whose compute is promised.
func promised(tb testing.TB) *allocate.View {
	v := emptyView(flat(tb, 1, gib))
	allocate.Occupy(&v.Use[0], allocate.CardShare{VRAMBytes: 1, ComputeMilli: 1000})
	refresh(v)
	return v
}

// fragments has 24 GiB free, on no card more than 12.
func fragments(tb testing.TB) *allocate.View {
	v := emptyView(flat(tb, 2, 24*gib))
	for i := range v.Use {
		allocate.Occupy(&v.Use[i], allocate.CardShare{Index: i, VRAMBytes: 12 * gib, SliceMask: 1<<32 - 1})
	}
	refresh(v)
	return v
}

func TestCauseStrings(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for c := allocate.CauseNone; c <= allocate.CauseWrongNUMA; c++ {
		if s := c.String(); s == "" || seen[s] {
			t.Errorf("cause %d reads %q", c, s)
		} else {
			seen[s] = true
		}
	}
	if got := (allocate.CauseWrongNUMA + 1).String(); got != "cause 13" {
		t.Errorf("a cause that does not exist reads %q", got)
	}
}

func TestBrokenInputIsAnError(t *testing.T) {
	t.Parallel()
	good := emptyView(flat(t, 2, gib))
	long := strings.Repeat("x", 300)
	change := func(f func(c *allocate.Claim)) *allocate.Request {
		r := share(1, 1)
		f(&r.Claims[0])
		return r
	}
	for name, tc := range map[string]struct {
		r         *allocate.Request
		v         *allocate.View
		wantField string
	}{
		"count":              {whole(0), good, "claims[0].count"},
		"negative count":     {whole(-4), good, "claims[0].count"},
		"kind":               {change(func(c *allocate.Claim) { c.Kind = 9 }), good, "claims[0].kind"},
		"phase":              {change(func(c *allocate.Claim) { c.Phase = 9 }), good, "claims[0].phase"},
		"bytes":              {change(func(c *allocate.Claim) { c.VRAMBytes = -1 }), good, "claims[0].vramBytes"},
		"no size":            {change(func(c *allocate.Claim) { c.VRAMBytes = 0 }), good, "claims[0].vramBytes"},
		"two sizes":          {change(func(c *allocate.Claim) { c.FractionPPB = 1 }), good, "claims[0].vramBytes"},
		"fraction":           {change(func(c *allocate.Claim) { c.FractionPPB = math.MaxInt64 }), good, "claims[0].fractionPPB"},
		"negative fraction":  {change(func(c *allocate.Claim) { c.FractionPPB = -1 }), good, "claims[0].fractionPPB"},
		"compute":            {change(func(c *allocate.Claim) { c.ComputeMilli = 1001 }), good, "claims[0].computeMilli"},
		"profile of a share": {change(func(c *allocate.Claim) { c.Profile = long }), good, "claims[0].profile"},
		"whole with a size":  {change(func(c *allocate.Claim) { c.Kind = allocate.KindWhole }), good, "claims[0].kind"},
		"MIG with a size":    {change(func(c *allocate.Claim) { c.Kind, c.Profile = allocate.KindMIG, "1g.5gb" }), good, "claims[0].kind"},
		"MIG no profile":     {mig("", 1), good, "claims[0].profile"},
		"NUMA":               {with(whole(1), func(r *allocate.Request) { r.NUMA = 3 }), good, "numa"},
		"NIC":                {with(whole(1), func(r *allocate.Request) { r.NIC = 3 }), good, "nic"},
		"init after main":    {claims(wholeClaim("a", allocate.PhaseMain, 1), wholeClaim("b", allocate.PhaseInit, 1)), good, "claims[1].phase"},
		"two phases":         {claims(wholeClaim("a", allocate.PhaseInit, 1), wholeClaim("a", allocate.PhaseMain, 1)), good, "claims[1].phase"},
		"use too short":      {whole(1), &allocate.View{Topology: good.Topology}, "use"},
		"negative use":       {whole(1), &allocate.View{Topology: good.Topology, Use: []allocate.CardUse{{}, {VRAMBytes: -1}}, Free: good.Free}, "use[1]"},
		"free out of step":   {whole(1), &allocate.View{Topology: good.Topology, Use: []allocate.CardUse{{}, {Holders: 1}}, Free: good.Free}, "free"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, rej, err := allocate.NewChooser().Choose(tc.v, tc.r)
			var input *allocate.InputError
			if rej != nil || !errors.As(err, &input) || input.Field != tc.wantField {
				t.Fatalf("rejection %v, error %v; want an error about %s", rej, err, tc.wantField)
			}
			if len(err.Error()) > 250 || !strings.Contains(err.Error(), tc.wantField) {
				t.Errorf("error %q", err)
			}
			if _, _, _, err2 := allocate.NewChooser().Assess(tc.v, tc.r); err2 == nil || err2.Error() != err.Error() {
				t.Errorf("Assess: %v", err2)
			}
			fits := allocate.NewChooser().Fits(tc.v, tc.r)
			if fits == nil || fits.Reason != allocate.ReasonInvalid || !strings.Contains(fits.String(), tc.wantField) {
				t.Errorf("Fits = %v", fits)
			}
		})
	}
}

func TestValidateNames(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		r         *allocate.Request
		wantField string
	}{
		"nothing":          {&allocate.Request{}, ""},
		"one, no name":     {claims(wholeClaim("", 0, 1)), ""},
		"neighbours":       {claims(wholeClaim("a", 0, 1), shareClaim("a", 0, 1), wholeClaim("b", 0, 1)), ""},
		"two, no name":     {claims(wholeClaim("a", 0, 1), wholeClaim("", 0, 1)), "claims[1].container"},
		"apart":            {claims(wholeClaim("a", 0, 1), wholeClaim("b", 0, 1), wholeClaim("a", 0, 1)), "claims[2].container"},
		"what check finds": {claims(wholeClaim("a", 0, 0)), "claims[0].count"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.r.Validate()
			var input *allocate.InputError
			if got := errors.As(err, &input); got != (tc.wantField != "") || got && input.Field != tc.wantField {
				t.Errorf("Validate = %v, want an error about %q", err, tc.wantField)
			}
		})
	}
}

func TestNoClaimsNeedNothing(t *testing.T) {
	t.Parallel()
	c, r := allocate.NewChooser(), &allocate.Request{}
	for _, v := range []*allocate.View{{}, viewOf(n8s(t), 0)} {
		choice, rej, err := c.Choose(v, r)
		if rej != nil || err != nil || !cmp.Equal(choice, allocate.Choice{}) || c.Fits(v, r) != nil {
			t.Errorf("Choose = %+v %v %v", choice, rej, err)
		}
		if set, q, rej, err := c.Assess(v, r); set != 0 || q != (allocate.Quality{}) || rej != nil || err != nil {
			t.Errorf("Assess = %v %+v %v %v", set, q, rej, err)
		}
	}
}

func TestCanHold(t *testing.T) {
	t.Parallel()
	v := busyView(t)
	part := func(i int, bytes int64, milli int32, mask uint64) allocate.CardShare {
		return allocate.CardShare{Index: i, VRAMBytes: bytes, ComputeMilli: milli, SliceMask: mask}
	}
	const high = uint64(math.MaxUint64) >> 44 << 44
	mig := allocate.CardShare{Index: 2, MIGProfile: "1g.5gb", SliceMask: 1, VRAMBytes: 5 * gib}
	otherUUID, wrongMask, wrongCard := wholeShare(v.Topology, 8), mig, mig
	otherUUID.UUID = "GPU-elsewhere"
	wrongMask.SliceMask = 0b11
	wrongCard.Index = 8
	for name, tc := range map[string]struct {
		shares []allocate.CardShare
		want   string
	}{
		"nothing":              {nil, ""},
		"whole":                {[]allocate.CardShare{wholeShare(v.Topology, 8)}, ""},
		"whole, no UUID":       {[]allocate.CardShare{{Index: 8, SliceMask: allocate.WholeCard, VRAMBytes: 40 * gib, ComputeMilli: 1000}}, ""},
		"whole, other UUID":    {[]allocate.CardShare{otherUUID}, "card 8: its UUID is GPU-8, not GPU-elsewhere"},
		"whole, memory known?": {[]allocate.CardShare{wholeShare(v.Topology, 3)}, ""},
		"whole, used":          {[]allocate.CardShare{wholeShare(v.Topology, 5)}, "card 5: slices in use"},
		"whole twice":          {[]allocate.CardShare{wholeShare(v.Topology, 8), wholeShare(v.Topology, 8)}, "card 8: slices in use"},
		"whole, closed":        {[]allocate.CardShare{wholeShare(v.Topology, 7)}, "card 7: closed to new pods"},
		"whole, sick":          {[]allocate.CardShare{wholeShare(v.Topology, 1)}, "card 1: unhealthy"},
		"whole, MIG mode":      {[]allocate.CardShare{wholeShare(v.Topology, 2)}, "card 2: in MIG mode"},
		"no such card":         {[]allocate.CardShare{{Index: 9}}, "card 9: the node has no such card"},
		"negative card":        {[]allocate.CardShare{{Index: -1}}, "card -1: the node has no such card"},
		"part":                 {[]allocate.CardShare{part(6, 12*gib, 300, high)}, ""},
		"part too large":       {[]allocate.CardShare{part(6, 12*gib+1, 300, high)}, "card 6: not enough memory left"},
		"part, compute":        {[]allocate.CardShare{part(6, gib, 301, 0)}, "card 6: not enough compute left"},
		"part, slices":         {[]allocate.CardShare{part(6, gib, 0, 1)}, "card 6: slices in use"},
		"part, negative":       {[]allocate.CardShare{part(6, -gib, 0, 0)}, "card 6: bytes or compute out of range"},
		"part, too much":       {[]allocate.CardShare{part(6, gib, 1001, 0)}, "card 6: bytes or compute out of range"},
		"part, all compute":    {[]allocate.CardShare{part(6, gib, 1000, 0)}, "card 6: in use"},
		"part, no memory":      {[]allocate.CardShare{part(6, 0, 0, 0)}, "card 6: a share without memory"},
		"part, unknown card":   {[]allocate.CardShare{part(3, gib, 0, 0)}, "card 3: its memory is not known"},
		"parts add up":         {[]allocate.CardShare{part(8, 20*gib, 500, 1), part(6, gib, 0, 0), part(8, 20*gib, 500, 2)}, ""},
		"parts, too large":     {[]allocate.CardShare{part(8, 20*gib, 0, 1), part(8, 20*gib+1, 0, 2)}, "card 8: not enough memory left"},
		"all promised":         {[]allocate.CardShare{part(8, gib, 1000, 1), part(8, gib, 0, 2)}, "card 8: not enough compute left"},
		"instance":             {[]allocate.CardShare{mig}, ""},
		"instance twice":       {[]allocate.CardShare{mig, mig}, "card 2: slices in use"},
		"instance, wrong mask": {[]allocate.CardShare{wrongMask}, "card 2: no such MIG instance"},
		"instance, no MIG":     {[]allocate.CardShare{wrongCard}, "card 8: no such MIG instance"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := v.CanHold(tc.shares); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("CanHold = %q, want %q", got, tc.want)
			}
		})
	}
	if err := (&allocate.View{}).CanHold([]allocate.CardShare{{}}); err == nil {
		t.Error("a view without topology holds a card")
	}
}
