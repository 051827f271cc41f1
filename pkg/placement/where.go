package placement

import (
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// best names the domain that came nearest.
func (r *Rejection) best() string { return "the best " + levelName(r.Level) + ", " + cut(r.Domain) }

// levelName names a level in a sentence.
func levelName(l topology.Level) string {
	if l == topology.LevelNVLink {
		return "NVLink domain"
	}
	return l.String()
}

// tooFew says that there is too little in total.
func (r *Rejection) tooFew() string {
	a := &r.GPUs
	if r.Domain == "" {
		return a.tooFew() + ": " + a.haveAndNeed(", ")
	}
	return r.best() + ", has " + a.amount(a.Free) + " of the " + a.amount(a.Needed) + " " + a.freeUnit() + " that are needed"
}

// slices says that there are places, but not for whole slices.
func (r *Rejection) slices() string {
	return "there are places for all, but only for " + plural(r.Placeable, "pod") + " in whole slices of " + strconv.Itoa(r.Slice.Size) +
		" that use one " + levelName(r.Slice.Level) + " each"
}

// running says what about the running part of the gang is in the way.
func (r *Rejection) running() string {
	if r.Gap == GapApart {
		return "its running pods use more than one " + levelName(r.Level)
	}
	s := "the slice of ranks " + strconv.Itoa(r.FirstRank) + " to " + strconv.Itoa(r.LastRank) + " runs in part"
	if r.Domain == "" {
		return s + " and cannot be completed in one " + levelName(r.Level)
	}
	return s + ", in " + levelName(r.Level) + " " + cut(r.Domain) + ", which has places for " + strconv.Itoa(r.Places) + " of its other " + plural(r.Want, "pod")
}

// noLabels says that the level of a limit is unknown to the fabric.
func (r *Rejection) noLabels() string {
	if r.Unlabelled == topology.LevelHost {
		return ""
	}
	return "; no node has a label of level " + r.Unlabelled.String()
}
