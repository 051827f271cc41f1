package v1alpha1

import (
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	// wholeMask is the slice mask of a whole card.
	wholeMask = ^SliceMask(0)
	// migSlices is the number of memory slices of a card in MIG mode.
	migSlices = 8
	// maxShares is the largest number of shares a pod can hold: every MIG instance of every card.
	maxShares = topology.MaxCards * migSlices
	// maxMilli is the compute of a whole card.
	maxMilli = 1000
	// maxText bounds every string: twice the 253 characters of an object name and a separator.
	maxText = 507
)

func indexed(at string, i int) string { return at + "[" + strconv.Itoa(i) + "]" }

func missing(field string) *FieldError { return refuse(field, "", "is missing") }

func tooMany(field string, n int) *FieldError {
	return refuse(field, strconv.Itoa(n), "a node has at most "+strconv.Itoa(maxShares)+" shares to give")
}

// text checks a string that must be there if required.
func text(field, value string, required bool) error {
	switch {
	case required && value == "":
		return missing(field)
	case !utf8.ValidString(value):
		return refuse(field, value, "not valid UTF-8")
	case utf8.RuneCountInString(value) > maxText:
		return refuse(field, value, "longer than "+strconv.Itoa(maxText)+" characters")
	}
	return nil
}

func (r *Record) validate() error {
	if r.V != Version {
		return &VersionError{Key: AllocationAnnotation, Got: r.V}
	}
	for _, t := range []struct {
		field, value string
		required     bool
	}{{"node", r.Node, true}, {"gang", r.Gang, false}, {"plan", r.Plan, false}} {
		if err := text(t.field, t.value, t.required); err != nil {
			return err
		}
	}
	if r.Rank != nil && *r.Rank < 0 {
		return refuse("rank", strconv.Itoa(int(*r.Rank)), "must not be negative")
	}
	if err := validateCards("cards", r.Cards); err != nil {
		return err
	}
	return r.validateContainers()
}

func (r *Record) validateContainers() error {
	var pod topology.GPUSet
	for i := range r.Cards {
		pod = pod.With(r.Cards[i].Index)
	}
	names := make(map[string]bool, len(r.Containers))
	for i := range r.Containers {
		c, at := &r.Containers[i], indexed("containers", i)
		if err := text(at+".name", c.Name, true); err != nil {
			return err
		}
		if names[c.Name] {
			return refuse(at+".name", c.Name, "stands twice")
		}
		names[c.Name] = true
		if err := validateCards(at+".cards", c.Cards); err != nil {
			return err
		}
		for j := range c.Cards {
			if !pod.Has(c.Cards[j].Index) {
				return refuse(indexed(at+".cards", j)+".index", strconv.Itoa(c.Cards[j].Index), "is not among the pod's cards")
			}
		}
	}
	return nil
}

// validateCards checks shares of one holder: each by itself, then that no card is held twice. MIG instances of one
// card are different things as long as their memory slices are.
func validateCards(at string, cards []CardRecord) error {
	if len(cards) == 0 {
		return refuse(at, "", "must name at least one card")
	}
	if len(cards) > maxShares {
		return tooMany(at, len(cards))
	}
	var taken [topology.MaxCards]SliceMask
	uuidOf := make(map[int]string, len(cards))
	indexOf := make(map[string]int, len(cards))
	for i := range cards {
		c, here := &cards[i], indexed(at, i)
		if err := c.validate(here); err != nil {
			return err
		}
		mask := c.SliceMask
		if c.MIG == "" {
			mask = wholeMask
		}
		if taken[c.Index]&mask != 0 {
			return refuse(here+".index", strconv.Itoa(c.Index), "stands twice")
		}
		taken[c.Index] |= mask
		if first, ok := uuidOf[c.Index]; ok && first != c.UUID {
			return refuse(here+".uuid", c.UUID, "card "+strconv.Itoa(c.Index)+" has another UUID above")
		}
		uuidOf[c.Index] = c.UUID
		if first, ok := indexOf[c.UUID]; ok && first != c.Index {
			return refuse(here+".uuid", c.UUID, "is the UUID of card "+strconv.Itoa(first)+" too")
		}
		if c.UUID != "" {
			indexOf[c.UUID] = c.Index
		}
	}
	return nil
}

// validate checks one share by itself.
func (c *CardRecord) validate(at string) error {
	switch {
	case c.Index < 0 || c.Index >= topology.MaxCards:
		return refuse(at+".index", strconv.Itoa(c.Index), "must be 0 to "+strconv.Itoa(topology.MaxCards-1))
	case c.VRAMBytes < 0 || c.VRAMBytes > topology.MaxVRAMBytes:
		return refuse(at+".vramBytes", strconv.FormatInt(c.VRAMBytes, 10), "must be 0 to "+strconv.FormatInt(topology.MaxVRAMBytes, 10))
	case c.ComputeMilli < 0 || c.ComputeMilli > maxMilli:
		return refuse(at+".computeMilli", strconv.Itoa(int(c.ComputeMilli)), "must be 0 to "+strconv.Itoa(maxMilli))
	case c.MIG == "" && c.SliceMask != wholeMask && c.VRAMBytes == 0:
		return refuse(at+".vramBytes", "0", "a share of a card has memory")
	case c.MIG != "" && !contiguous(c.SliceMask):
		return refuse(at+".sliceMask", c.SliceMask.String(), "a MIG instance has neighbouring memory slices among bits 0 to 7")
	}
	if err := text(at+".uuid", c.UUID, false); err != nil {
		return err
	}
	return text(at+".mig", c.MIG, false)
}

// contiguous reports whether the mask is one run of bits among the memory slices of a MIG card.
func contiguous(m SliceMask) bool {
	if m == 0 || m >= 1<<migSlices {
		return false
	}
	low := m >> uint(bits.TrailingZeros64(uint64(m)))
	return low&(low+1) == 0
}
