package topology

import "fmt"

// Level is one layer of the cluster's network, from narrow to wide. Two nodes that share a domain of a narrow level
// reach each other better than two that share only one of a wide level.
type Level uint8

// The levels, from narrow to wide.
const (
	// LevelHost is one node; each node is a domain of its own.
	LevelHost Level = iota
	// LevelNVLink is a set of nodes whose GPUs are joined by NVLink (one partition of an NVL72 rack).
	LevelNVLink
	// LevelLeaf is the nodes below one leaf switch, one group of leaf switches (a rail group), or one rack.
	LevelLeaf
	// LevelSpine is the leaves below one group of spine switches: a block, a pod.
	LevelSpine
	// LevelCore is the spines below one group of core switches: one fabric, a data centre.
	LevelCore
	// LevelZone is a zone in the sense of topology.kubernetes.io/zone.
	LevelZone
	// LevelRegion is a region in the sense of topology.kubernetes.io/region.
	LevelRegion
	// LevelCluster is everything: one domain with all nodes. No label describes it.
	LevelCluster
)

// levelCount is the number of levels that labels can describe, the host included.
const levelCount = int(LevelCluster)

// levelNames is indexed by Level.
var levelNames = [levelCount + 1]string{"host", "nvlink", "leaf", "spine", "core", "zone", "region", "cluster"}

// String returns the name that ParseLevel reads: host, nvlink, leaf, spine, core, zone, region, cluster.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("level %d", uint8(l))
}

// ParseLevel reads the name of a level as String prints it, and "rack" for LevelLeaf. The error names the value.
func ParseLevel(s string) (Level, error) {
	if s == "rack" {
		return LevelLeaf, nil
	}
	for i, name := range levelNames {
		if s == name {
			return Level(i), nil
		}
	}
	return 0, fmt.Errorf("level %.64q is none of host, nvlink, leaf (rack), spine, core, zone, region, cluster", s)
}
