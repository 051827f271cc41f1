package topology

import (
	"fmt"
	"strings"
)

// FabricProblem is one thing that is wrong with the labels of the fabric: a domain that stands under several wider
// ones (Parents), or a label with a value that no label can have (Node, Key).
type FabricProblem struct {
	// Level is the level of the domain, or the narrowest that the label serves.
	Level Level
	// Name is the value of the label, its first 64 bytes.
	Name string
	// Parents describes the wider domains, in canonical order: "spine spine-1". There are two or more of them; the
	// domain is split into one for each.
	Parents []string
	// Node and Key name the label whose value cannot be; it counts as missing.
	Node, Key string
}

// maxParents is the number of wider domains that String lists.
const maxParents = 4

// String describes the problem in one sentence.
func (p FabricProblem) String() string {
	if p.Key != "" {
		return fmt.Sprintf("node %.64s: label %.64s has %.64q, which is no label value, and counts as missing at level %s",
			p.Node, p.Key, p.Name, p.Level)
	}
	listed, more := p.Parents, ""
	if len(listed) > maxParents {
		listed, more = listed[:maxParents], fmt.Sprintf(" and %d more", len(p.Parents)-maxParents)
	}
	return fmt.Sprintf("%s %.64s stands under %s%s, and is split into one %s for each",
		p.Level, p.Name, strings.Join(listed, ", "), more, p.Level)
}

// describeParent names a wider domain for a problem, by the value of its label.
func describeParent(s step) string {
	if s.from == LevelCluster {
		return "no wider domain"
	}
	return s.from.String() + " " + s.name
}

// valueProblems lists the first label of each node that has a value that cannot be, in canonical order.
func valueProblems(nodes []*fabricNode, v *vocabulary) []FabricProblem {
	var out []FabricProblem
	for _, n := range nodes {
		if n.labels.badKey == noKey {
			continue
		}
		i := int(n.labels.badKey)
		out = append(out, FabricProblem{Level: v.narrowest(i), Name: n.labels.bad, Node: n.name, Key: v.keys[i].Key})
	}
	return out
}
