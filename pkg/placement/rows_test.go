package placement

// LookedInto asks anew, after a plan, what each domain of a layer costs for so many members. It returns how many domains were
// looked into, part by part, and how many were skipped by their totals. Layer 0 are nodes.
func (p *Planner) LookedInto(layer, want int) (looked, skipped int) {
	for d := range p.tree.layers[layer].domains() {
		p.knap.rows[layer] = row{}
		p.knap.least(layer, d, want)
		if p.knap.rows[layer].cost == nil {
			skipped++
		} else {
			looked++
		}
	}
	return looked, skipped
}
