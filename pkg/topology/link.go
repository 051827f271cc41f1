package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// LinkType says how two devices of one node reach each other, in the terms of `nvidia-smi topo -m`.
// A higher value is a closer connection; the zero value is the worst, so that a link nobody described
// never looks good.
type LinkType uint8

// The link types, from worst to best.
const (
	// LinkUnknown is a pair that no source described.
	LinkUnknown LinkType = iota
	// LinkSYS crosses the interconnect between CPU sockets.
	LinkSYS
	// LinkNODE crosses host bridges inside one NUMA node.
	LinkNODE
	// LinkPHB passes one PCIe host bridge, usually the CPU.
	LinkPHB
	// LinkPXB passes several PCIe bridges, none of them a host bridge.
	LinkPXB
	// LinkPIX passes at most one PCIe bridge.
	LinkPIX
	// LinkNVLink is a bonded set of NVLinks, direct or through an NVSwitch.
	LinkNVLink
	// LinkSelf is a device and itself.
	LinkSelf
)

// Link is the connection of one pair of devices.
type Link struct {
	Type LinkType
	// NVLinks is the number of bonded NVLinks, 1 to 255; 0 for every other type.
	NVLinks uint8
}

// String formats the link as topo -m prints it: X, NV12, PIX, PXB, PHB, NODE, SYS; "?" for an unknown one.
func (l Link) String() string {
	switch l.Type {
	case LinkSelf:
		return "X"
	case LinkNVLink:
		return "NV" + strconv.Itoa(int(l.NVLinks))
	case LinkPIX:
		return "PIX"
	case LinkPXB:
		return "PXB"
	case LinkPHB:
		return "PHB"
	case LinkNODE:
		return "NODE"
	case LinkSYS:
		return "SYS"
	case LinkUnknown:
		return "?"
	}
	return "?"
}

// ParseLink reads one cell of a topo -m matrix ("?" for an unknown link). Older drivers print SOC for SYS.
func ParseLink(s string) (Link, error) {
	switch s {
	case "X":
		return Link{Type: LinkSelf}, nil
	case "PIX":
		return Link{Type: LinkPIX}, nil
	case "PXB":
		return Link{Type: LinkPXB}, nil
	case "PHB":
		return Link{Type: LinkPHB}, nil
	case "NODE":
		return Link{Type: LinkNODE}, nil
	case "SYS", "SOC":
		return Link{Type: LinkSYS}, nil
	case "?":
		return Link{}, nil
	}
	if digits, ok := strings.CutPrefix(s, "NV"); ok {
		if n, err := strconv.ParseUint(digits, 10, 8); err == nil && n > 0 {
			return Link{Type: LinkNVLink, NVLinks: uint8(n)}, nil
		}
	}
	return Link{}, fmt.Errorf("link %.64q is none of X, NV1 to NV255, PIX, PXB, PHB, NODE, SYS", s)
}

// Weaker returns the worse of two readings of one connection. A matrix whose two halves disagree is
// read as its weaker direction.
func Weaker(a, b Link) Link {
	if a.Type != b.Type {
		if a.Type < b.Type {
			return a
		}
		return b
	}
	if a.NVLinks < b.NVLinks {
		return a
	}
	return b
}
