package main

import (
	"fmt"
	"slices"
	"strings"
)

// variant is one way to get the pods bound.
type variant struct {
	name string
	// scheduler is false where this program's own binder stands in for one.
	scheduler bool
	// plugins says that our plugins run; without, the default profile does.
	plugins bool
	// gate says that the scheduler runs with genericWorkload.
	gate bool
	// flat says that NCCLTopology is left out: our plugins know no fabric then.
	flat bool
	// members is how pods name their gang.
	members membership
}

const (
	// genericWorkload is the gate of PodGroups of scheduling.k8s.io.
	genericWorkload = "GenericWorkload"
	// baseline is the variant that all others are compared with, ceiling the one that nobody can pass.
	baseline = "default"
	ceiling  = "no-decision"
	// ours is the variant that the limits of rate and CPU time hold for.
	ours = "crd"
	// single is ours for pods of no gang.
	single = "singles"
	// flat is ours without the fabric: what quality costs is ours divided by it.
	flat = "crd-flat"
)

// fabricPairs are variants that differ in NCCLTopology alone, the one that runs it first.
var fabricPairs = [][2]string{{ours, flat}, {single, "singles-flat"}}

var variants = []variant{
	{name: ceiling},
	{name: baseline, scheduler: true},
	{name: "in-tree", scheduler: true, gate: true, members: byField},
	{name: ours, scheduler: true, plugins: true, members: byLabel},
	{name: flat, scheduler: true, plugins: true, flat: true, members: byLabel},
	{name: single, scheduler: true, plugins: true},
	{name: "singles-flat", scheduler: true, plugins: true, flat: true},
	{name: "native", scheduler: true, plugins: true, gate: true, members: byField},
}

// variantNames lists all, in the order of the table.
func variantNames() []string {
	names := make([]string, len(variants))
	for i := range variants {
		names[i] = variants[i].name
	}
	return names
}

// variantsByName reads a list of names separated by commas and returns the variants in the order of the table.
func variantsByName(list string) ([]variant, error) {
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(variantNames(), name) {
			return nil, fmt.Errorf("--variants %.64q: must be some of %s", name, strings.Join(variantNames(), ","))
		}
	}
	return slices.DeleteFunc(slices.Clone(variants), func(v variant) bool { return !slices.Contains(wanted, v.name) }), nil
}

// order returns what runs in which order: every variant once a round, forth in even rounds and back in odd ones.
func order(chosen []variant, rounds int) []variant {
	var runs []variant
	for i := range rounds {
		turn := slices.Clone(chosen)
		if i%2 == 1 {
			slices.Reverse(turn)
		}
		runs = append(runs, turn...)
	}
	return runs
}

// mode says which pods exist when a scheduler begins.
type mode string

const (
	// backlog is all: the clock runs from the moment in which the scheduler leads.
	backlog mode = "backlog"
	// arrival is none: the clock runs from the first creation.
	arrival mode = "arrival"
)

func modeByName(name string) (mode, error) {
	if m := mode(name); m == backlog || m == arrival {
		return m, nil
	}
	return "", fmt.Errorf("--mode %.64q: must be %s or %s", name, backlog, arrival)
}
