package topology

// NUMAUnknown is the NUMA id of a card whose NUMA node no source named.
const NUMAUnknown = -1

// Card is one GPU of a node.
type Card struct {
	// UUID is NVIDIA's "GPU-..." name; empty where no source gave one.
	UUID string
	// Product is the marketing name, for example "NVIDIA H100 80GB HBM3"; empty if unknown.
	Product string
	// VRAMBytes is the card's memory. 0 means that no source gave the size: such a card is given out whole only.
	VRAMBytes int64
	// BusID is the PCI address ("00000000:1B:00.0"), empty if unknown.
	BusID string
	// PCIeSwitch and PCIeRoot name the switch and the root complex above the card; cards with equal,
	// non-empty names share it. Empty if unknown.
	PCIeSwitch, PCIeRoot string
	// NUMA is the id of the card's NUMA node, or NUMAUnknown.
	NUMA int
	// Healthy is false for a card that its source reports sick; it is closed to new pods.
	Healthy bool
	// MIGEnabled is true for a card in MIG mode: it is given out by instance only.
	MIGEnabled bool
	// Fault says in a few words why a card that is listed cannot be used ("vramBytes is -1", "UUID GPU-1 stands twice");
	// empty for a usable one. A card with a fault is never healthy.
	Fault string
	// MIG lists the instances that exist on a card in MIG mode.
	MIG []MIGInstance
}

// MIGInstance is one GPU instance of a card in MIG mode.
type MIGInstance struct {
	// Profile is NVIDIA's name of the size, for example "1g.10gb".
	Profile string
	// UUID is the "MIG-..." name, empty if unknown.
	UUID string
	// Start is the first memory slice, 0 to 7; Size is the number of memory slices, 1 to 8.
	Start, Size int
	// VRAMBytes is the instance's memory; 0 if unknown.
	VRAMBytes int64
}

// SliceMask returns the instance's memory slices as bits 0 to 7.
func (m MIGInstance) SliceMask() uint64 {
	if m.Start < 0 || m.Size <= 0 || m.Start+m.Size > 64 {
		return 0
	}
	if m.Size == 64 {
		return ^uint64(0)
	}
	return (uint64(1)<<uint(m.Size) - 1) << uint(m.Start)
}

// NIC is a network adapter of a node.
type NIC struct {
	Name string
	// Links holds the connection to every card by card index.
	Links []LinkType
}
