package inventory

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// migProfile is the name of a MIG profile, taken apart: "1g.10gb+me" has 1 compute slice, 10 GB and the attribute
// "+me".
type migProfile struct {
	name    string
	compute int
	gb      int
	// single is true for a profile of which a card can hold one instance only, because of the engines it takes.
	single bool
}

// most is the number of instances that one card can hold at most as far as the name tells.
func (p migProfile) most() int {
	if p.single {
		return 1
	}
	return slicesPerCard
}

// parseMIGProfile reads a profile in the spelling of nvidia-smi or of a resource name ("1g.10gb.me").
func parseMIGProfile(s string) (migProfile, bool) {
	name := v1alpha1.Profile(s)
	compute, rest, ok := strings.Cut(name, "g.")
	if !ok {
		return migProfile{}, false
	}
	gb, attribute, ok := strings.Cut(rest, "gb")
	if !ok {
		return migProfile{}, false
	}
	p := migProfile{name: name}
	var err error
	if p.compute, err = strconv.Atoi(compute); err != nil || p.compute < 1 || p.compute > 8 {
		return migProfile{}, false
	}
	if p.gb, err = strconv.Atoi(gb); err != nil || p.gb < 1 || p.gb > 1<<14 {
		return migProfile{}, false
	}
	switch attribute {
	case "", "-me", "+gfx", ".gfx":
	case "+me", "+me.all", ".me", ".me.all":
		p.single = true
	default:
		return migProfile{}, false
	}
	return p, true
}

// placement is where instances of one profile may lie on a card.
type placement struct {
	// size is the number of memory slices.
	size int
	// starts are the first slices allowed, the one to try first in front.
	starts []int
}

// The placements of NVIDIA's hardware, as `nvidia-smi mig -lgipp` prints them: keyed by the number of compute slices,
// for cards with eight memory slices (A100, H100, H200, B200 and their kin) and with four (A30, RTX PRO 6000). On an
// eight-slice card a profile of one compute slice may have one memory slice or two (1g.10gb, 1g.20gb).
var (
	eightSlices = map[int]placement{
		1: {size: 1, starts: []int{0, 1, 2, 3, 4, 5, 6}},
		2: {size: 2, starts: []int{0, 2, 4}},
		3: {size: 4, starts: []int{4, 0}},
		4: {size: 4, starts: []int{0}},
		7: {size: 8, starts: []int{0}},
	}
	oneWithTwo = placement{size: 2, starts: []int{6, 4, 2, 0}}
	fourSlices = map[int]placement{
		1: {size: 1, starts: []int{0, 1, 2, 3}},
		2: {size: 2, starts: []int{0, 2}},
		4: {size: 4, starts: []int{0}},
	}
)

// fourSliceProducts are the words of a product name that mean a card with four memory slices.
var fourSliceProducts = []string{"A30", "6000"}

// placementOf finds where instances of p may lie on a card of this product with so many GB of memory.
func placementOf(p migProfile, product string, cardGB int) (placement, bool) {
	words := strings.FieldsFunc(strings.ToUpper(product), func(r rune) bool { return r == ' ' || r == '-' || r == '_' })
	for _, w := range fourSliceProducts {
		if slices.Contains(words, w) {
			at, ok := fourSlices[p.compute]
			return at, ok
		}
	}
	if p.compute == 1 && 16*p.gb > 3*cardGB { // nearer to a quarter of the card than to an eighth
		return oneWithTwo, true
	}
	at, ok := eightSlices[p.compute]
	return at, ok
}

// cardGB guesses the size of a card from the profiles that it is cut into, where no source gives it: a profile of 7
// compute slices has all the memory, one of 3 or 4 half, one of 2 a quarter, and the smallest of 1 an eighth.
func cardGB(profiles []migProfile) int {
	gb := 0
	for _, p := range profiles {
		switch p.compute {
		case 7, 8:
			return p.gb
		case 3, 4:
			gb = max(gb, 2*p.gb)
		case 2:
			gb = max(gb, 4*p.gb)
		}
	}
	if gb > 0 {
		return gb
	}
	ones := slices.MinFunc(profiles, func(a, b migProfile) int { return cmp.Compare(a.gb, b.gb) })
	return 8 * ones.gb
}
