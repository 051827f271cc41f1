package inventory

import (
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// Duplicate is a UUID that stands on more than one node.
type Duplicate struct {
	UUID string
	// Nodes are the names of the nodes, ascending.
	Nodes []string
}

// DuplicateUUIDs finds the cards that more than one node claims to have, ordered by UUID. A card can be in one
// machine only, so that one of the descriptions is wrong; which one cannot be told. nodes may hold nil topologies.
func DuplicateUUIDs(nodes map[string]*topology.Node) []Duplicate {
	seen := make(map[string][]string)
	for _, name := range sortedKeys(nodes) {
		t := nodes[name]
		if t == nil {
			continue
		}
		for i := range t.Len() {
			if uuid := t.Card(i).UUID; uuid != "" && !slices.Contains(seen[uuid], name) {
				seen[uuid] = append(seen[uuid], name)
			}
		}
	}
	var out []Duplicate
	for _, uuid := range sortedKeys(seen) {
		if len(seen[uuid]) > 1 {
			out = append(out, Duplicate{UUID: uuid, Nodes: seen[uuid]})
		}
	}
	return out
}
