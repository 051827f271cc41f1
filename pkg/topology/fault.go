package topology

import "fmt"

// migSlices is the number of memory slices of a card in MIG mode.
const migSlices = 8

// closeFaulty sets Fault on every card that cannot be used, and makes it unhealthy.
func closeFaulty(cards []Card) {
	seen := make(map[string]int, len(cards))
	for i := range cards {
		c := &cards[i]
		if c.Fault == "" {
			c.Fault = c.fault()
		}
		if c.VRAMBytes < 0 {
			c.VRAMBytes = 0
		}
		if c.UUID == "" {
			continue
		}
		if first, ok := seen[c.UUID]; ok {
			twice := fmt.Sprintf("UUID %.64s stands twice", c.UUID)
			setFault(&cards[first], twice)
			setFault(c, twice)
			continue
		}
		seen[c.UUID] = i
	}
	for i := range cards {
		if cards[i].Fault != "" {
			cards[i].Healthy = false
		}
	}
}

func setFault(c *Card, fault string) {
	if c.Fault == "" {
		c.Fault = fault
	}
}

// fault says why the card alone, without regard to the others, cannot be used; "" if it can.
func (c *Card) fault() string {
	switch {
	case c.VRAMBytes < 0:
		return fmt.Sprintf("vramBytes is %d", c.VRAMBytes)
	case c.VRAMBytes > MaxVRAMBytes:
		return fmt.Sprintf("vramBytes is %d, above %d", c.VRAMBytes, MaxVRAMBytes)
	case len(c.MIG) > 0 && !c.MIGEnabled:
		return "MIG instances are listed, but MIG mode is off"
	}
	var used uint64
	for i, m := range c.MIG {
		switch {
		case m.Profile == "":
			return fmt.Sprintf("MIG instance %d has no profile", i)
		case m.Start < 0 || m.Size < 1 || m.Start > migSlices-1 || m.Size > migSlices-m.Start:
			return fmt.Sprintf("MIG instance %d starts at slice %d with %d slices", i, m.Start, m.Size)
		case m.VRAMBytes < 0 || m.VRAMBytes > MaxVRAMBytes:
			return fmt.Sprintf("MIG instance %d has vramBytes %d", i, m.VRAMBytes)
		case used&m.SliceMask() != 0:
			return fmt.Sprintf("MIG instance %d overlaps another", i)
		}
		used |= m.SliceMask()
	}
	return ""
}
