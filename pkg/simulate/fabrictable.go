package simulate

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// fabricTable draws the leaves with the members of the gangs that run, as their PodGroups' layouts say, and the ring of each
// gang. The layouts have been compared with the pods.
func fabricTable(standings []standing) string {
	var places [][]string
	rings := [][]string{{"GANG", "LEAVES", "WHOLE RING GB/s", "SLOWEST", "NODE CROSSINGS (OPTIMUM)", "LEAF CROSSINGS (OPTIMUM)"}}
	for i := range standings {
		s := &standings[i]
		if s.want != phaseRunning {
			continue
		}
		for j := range s.layout.Domains {
			places = append(places, domainRows(s, &s.layout.Domains[j])...)
		}
		rate := "-"
		if s.way.slowest > 0 {
			rate = strconv.FormatFloat(s.way.slowest.GBps(), 'f', 1, 64)
		}
		rings = append(rings, []string{
			s.gang.name, strconv.Itoa(len(s.layout.Domains)), rate, cmp.Or(s.way.at, "-"), s.way.nodes.String(), s.way.leaves.String(),
		})
	}
	slices.SortStableFunc(places, func(a, b []string) int { return slices.Compare(a[:3], b[:3]) })
	rows := [][]string{{"WITHIN", "LEAF", "NODE", "MEMBERS IN RANK ORDER"}}
	for i, row := range places {
		row = slices.Clone(row)
		for cell := range 3 { // what is as in the row above is not said again
			if i == 0 || !slices.Equal(places[i-1][:cell+1], places[i][:cell+1]) {
				break
			}
			row[cell] = ""
		}
		rows = append(rows, row)
	}
	return columns(rows) + "\n" + columns(rings)
}

// domainRows are the rows of one domain of a gang's layout, one for each node.
func domainRows(s *standing, d *v1alpha1.LayoutDomain) [][]string {
	var rows [][]string
	for i := range d.Nodes {
		var members []string
		for j := range s.seats {
			if s.seats[j].Node == d.Nodes[i].Name {
				members = append(members, s.seats[j].Pod.Name)
			}
		}
		rows = append(rows, []string{strings.Join(d.Within, ", "), d.Name, d.Nodes[i].Name, strings.Join(members, " ")})
	}
	return rows
}
