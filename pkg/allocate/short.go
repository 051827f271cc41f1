package allocate

import "strconv"

// Short says in a few words what a node had of what was asked, fit to be counted over nodes: it differs between nodes of
// one request only in the number of cards that would serve, and has no comma. For example "2 of 4 whole GPUs free",
// "room for 20.0 GiB on 0 of 1 GPU", "3 of 4 MIG instances 1g.10gb free".
func (r *Rejection) Short() string {
	switch r.Reason {
	case ReasonUnknownGPUs, ReasonInvalid:
		return r.String()
	}
	of := strconv.Itoa(r.Have) + " of "
	var s string
	switch r.Claim.Kind {
	case KindShare:
		s = "room for " + r.size()
		if r.Claim.ComputeMilli > 0 {
			s += " and " + strconv.Itoa(int(r.Claim.ComputeMilli)) + "/1000 of the compute"
		}
		s += " on " + of + plural(r.Claim.Count, "GPU")
	case KindMIG:
		s = of + plural(r.Claim.Count, "MIG instance") + " " + cut(r.Claim.Profile) + " free"
	case KindWhole:
		s = of + plural(r.Claim.Count, "whole GPU") + " free"
	}
	s += r.where()
	if r.Claim.Container != "" {
		s += " for container " + strconv.Quote(cut(r.Claim.Container))
	}
	return s
}
