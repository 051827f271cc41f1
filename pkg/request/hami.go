package request

import (
	"fmt"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// HAMi's resources (pkg/device/nvidia in Project-HAMi/HAMi). They say how much of each of the container's cards it gets;
// the number of cards is nvidia.com/gpu, or 1, HAMi's default, where that is absent.
const (
	hamiMemory  = nvidiaPrefix + "gpumem"
	hamiPercent = nvidiaPrefix + "gpumem-percentage"
	hamiCores   = nvidiaPrefix + "gpucores"
)

const (
	// ppb is a whole in parts per billion.
	ppb = int64(1_000_000_000)
	// ppbPerPercent is one percent in parts per billion.
	ppbPerPercent = ppb / 100
	// milliPerPercent is one percent of a card's compute in thousandths.
	milliPerPercent = allocate.MilliPerCard / 100
)

// hamiWish is what one container says in HAMi's terms.
type hamiWish struct {
	gpu, memory, percent, cores amount
}

// asked reports whether any of HAMi's own resources is there and not zero.
func (h *hamiWish) asked() bool { return h.memory.asked() || h.percent.asked() || h.cores.asked() }

// origin is the amount that stands for the wish in messages.
func (h *hamiWish) origin() *amount {
	switch {
	case h.memory.asked():
		return &h.memory
	case h.percent.asked():
		return &h.percent
	}
	return &h.cores
}

func readHAMi(c *container) (hamiWish, error) {
	var h hamiWish
	var err error
	if h.gpu, err = c.amount(gpuResource); err != nil {
		return hamiWish{}, err
	}
	if h.memory, err = c.amount(hamiMemory); err != nil {
		return hamiWish{}, err
	}
	if h.percent, err = c.amount(hamiPercent); err != nil {
		return hamiWish{}, err
	}
	h.cores, err = c.amount(hamiCores)
	return h, err
}

// describeHAMi reads nvidia.com/gpumem, gpumem-percentage and gpucores.
func (w *wish) describeHAMi(c *container) (description, error) {
	h, err := readHAMi(c)
	if err != nil || !h.asked() {
		return description{}, err
	}
	cards, err := h.cards()
	if err != nil {
		return description{}, err
	}
	claim := allocate.Claim{Kind: allocate.KindShare, Count: cards}
	if claim.VRAMBytes, claim.FractionPPB, err = h.share(); err != nil {
		return description{}, err
	}
	cores, err := h.cores.whole(100)
	if err != nil {
		return description{}, err
	}
	claim.ComputeMilli = int32(cores) * milliPerPercent
	return described(claim, h.origin()), nil
}

func (h *hamiWish) cards() (int, error) {
	if !h.gpu.present() {
		return 1, nil
	}
	n, err := h.gpu.whole(maxCards)
	if err == nil && n == 0 {
		return 0, h.gpu.refuse("must be at least 1 beside " + h.origin().field())
	}
	return n, err
}

// share returns the memory on each card as bytes or as a part of it. A container that asks for compute alone gets all
// the memory, as with HAMi.
func (h *hamiWish) share() (vram, fraction int64, err error) {
	percent, err := h.percent.whole(100)
	if err != nil {
		return 0, 0, err
	}
	switch {
	case h.memory.asked() && percent > 0:
		return 0, 0, h.percent.refuse(fmt.Sprintf("disagrees with %s, which is %q", h.memory.field(), h.memory.text()))
	case h.memory.asked():
		vram, reason := mebibytes(h.memory.units)
		if reason != "" {
			return 0, 0, h.memory.refuse(reason)
		}
		return vram, 0, nil
	case percent > 0:
		return 0, int64(percent) * ppbPerPercent, nil
	}
	return 0, ppb, nil
}
