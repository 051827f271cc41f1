package oracle

import (
	"fmt"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Kind is the way in which a pod takes cards.
type Kind uint8

// The kinds.
const (
	// Whole takes cards whole.
	Whole Kind = iota + 1
	// Share takes a part of one or more cards.
	Share
	// MIG takes instances of cards in MIG mode.
	MIG
)

// slicesPerCard is the number of parts in which a record's slice mask cuts a card that is not in MIG mode.
const slicesPerCard = 64

// Ask is what one pod wants.
type Ask struct {
	Kind Kind
	// Count is the number of cards, of MIG instances for MIG; >= 1.
	Count int
	// Bytes is a share's memory on each card; 0 where Percent says it.
	Bytes int64
	// Percent is a share's part of each card's memory, 1 to 100, rounded up to bytes; 0 where Bytes says it.
	Percent int64
	// ComputeMilli is the compute that a share is promised on each card, 0 to 1000 thousandths.
	ComputeMilli int32
	// Profile is the profile of a MIG instance.
	Profile string
}

// String says the ask in a few words, for example "2 GPUs" or "20 GiB of a GPU".
func (a Ask) String() string {
	switch a.Kind {
	case Whole:
		return plural(a.Count, "GPU")
	case MIG:
		return plural(a.Count, "MIG "+a.Profile)
	case Share:
		size := strconv.FormatInt(a.Percent, 10) + "%"
		if a.Bytes > 0 {
			size = strconv.FormatFloat(float64(a.Bytes)/(1<<30), 'f', -1, 64) + " GiB"
			if a.Bytes%(1<<30) != 0 {
				size = strconv.FormatInt(a.Bytes>>20, 10) + " MiB"
			}
		}
		of := " of a GPU"
		if a.Count > 1 {
			of = fmt.Sprintf(" of %d GPUs each", a.Count)
		}
		if a.ComputeMilli > 0 {
			of += fmt.Sprintf(", %d%% compute", a.ComputeMilli/10)
		}
		return size + of
	}
	return "nothing"
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// bytesOn returns the share's memory on a card.
func (a Ask) bytesOn(c *topology.Card) int64 {
	if a.Percent > 0 {
		return (c.VRAMBytes*a.Percent + 99) / 100
	}
	return a.Bytes
}
