package spread

import "math"

// Weight says what one constraint adds to the points of a node.
type Weight struct {
	// MaxSkew is the constraint's, at least 1.
	MaxSkew int32
	// PerNode counts the pods of the node itself, whatever the constraint says of the node: the domains are the nodes.
	PerNode bool
}

// Candidates are the nodes that points are asked for.
type Candidates interface {
	Len() int
	Name(i int) string
}

// Scores are the points of candidates. They never change; methods are safe for concurrent callers.
type Scores struct {
	slots  map[string]int32
	points []int64
}

// ignored is what stands for a node that has no points: one that AllKeys leaves out, or no candidate.
const ignored = -1

// Of returns the points of a node: fewer are better. It is false for a node without points.
func (s *Scores) Of(node string) (int64, bool) {
	slot, ok := s.slots[node]
	if !ok || int(slot) >= len(s.points) || s.points[slot] == ignored {
		return 0, false
	}
	return s.points[slot], true
}

// scores gives points by the formula
//
//	points = round(sum over the constraints whose key the node has: pods x ln(domains + 2) + maxSkew - 1)
//
// where domains is the number of different domains of the candidates that have points (PerNode: of those candidates), and pods
// the count of the node's domain (PerNode: of the node). Range: 0 and up. Worked example: candidates in 2 racks, maxSkew 1, 3
// matching pods in the rack of the node: 3 x ln 4 + 0 = 4.16, 4 points.
func (s *set) scores(d *directory, candidates Candidates, weights []Weight) *Scores {
	out := &Scores{slots: d.slots.lend(), points: make([]int64, len(d.rows))}
	for slot := range out.points {
		out.points[slot] = ignored
	}
	chosen := make([]int32, 0, candidates.Len())
	for i := range candidates.Len() {
		if slot, ok := out.slots[candidates.Name(i)]; ok && s.in[slot] && !s.lacksKey(int(slot)) {
			chosen = append(chosen, slot)
		}
	}
	factors := make([]float64, len(s.sums))
	for i := range s.sums {
		size := len(chosen)
		if !weights[i].PerNode {
			size = s.different(chosen, i)
		}
		factors[i] = math.Log(float64(size + 2))
	}
	for _, slot := range chosen {
		points := 0.0
		for i := range s.sums {
			p := s.parts[int(slot)*len(s.sums)+i]
			if p.lacks() {
				continue
			}
			pods := p.pods
			if !weights[i].PerNode {
				pods = s.sums[i].at(p.domain())
			}
			points += float64(pods)*factors[i] + float64(weights[i].MaxSkew-1)
		}
		out.points[slot] = int64(math.Round(points))
	}
	return out
}

// different counts the domains of the slots.
func (s *set) different(slots []int32, i int) (n int) {
	met := make([]uint64, len(s.columns[i].nodes)/64+1)
	for _, slot := range slots {
		domain := s.parts[int(slot)*len(s.sums)+i].domain()
		if word, bit := &met[domain/64], uint64(1)<<(domain%64); *word&bit == 0 {
			*word |= bit
			n++
		}
	}
	return n
}

func (s *sum) at(domain int32) int32 {
	if int(domain) >= len(s.pods) {
		return 0
	}
	return s.pods[domain]
}
