package simulate

import (
	"fmt"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// standing is where one gang stands.
type standing struct {
	gang *gang
	// want is the phase that its pods show, state what the PodGroup says.
	want  string
	state groupState
	// seats are the members' places in the order of their ranks, once they have some. layout and way are what they mean in
	// the fabric.
	seats  []seat
	layout *v1alpha1.Layout
	way    way
}

// gangTable draws where all gangs stand, one row for each node of one that runs, and says why those wait that do.
func gangTable(standings []standing) string {
	rows := [][]string{{"GANG", "PHASE", "RUNNING", "NODE", "MEMBERS", "RANKS", "CARDS OF EACH", "RING GB/s", "LINKS"}}
	var reasons strings.Builder
	for i := range standings {
		s := &standings[i]
		head := []string{s.gang.name, s.state.phase, fmt.Sprintf("%d of %d", s.state.running, s.gang.size)}
		if s.state.reason != "" {
			fmt.Fprintf(&reasons, "\n%s holds nothing. Its PodGroup and its %d pods say: %s\n", s.gang.name, s.gang.size, s.state.reason)
		}
		if s.state.phase != phaseRunning {
			rows = append(rows, append(head, "-", "-", "-", "-", "-", "-"))
			continue
		}
		for on := range runs(s.seats, func(s *seat) string { return s.Node }) {
			rows = append(rows, append(head, nodeCells(on)...))
			head = []string{"", "", ""}
		}
	}
	return columns(rows) + reasons.String()
}

// nodeCells are the cells of the members on one node, of which there is at least one.
func nodeCells(on []seat) []string {
	var names, cards []string
	slowest := &on[0]
	for i := range on {
		s := &on[i]
		names = append(names, s.Pod.Name)
		cards = append(cards, s.cards())
		if s.Ring < slowest.Ring {
			slowest = s
		}
	}
	return []string{on[0].Node, strings.Join(names, " "), ranksOf(on), strings.Join(cards, " | "), slowest.ring(), slowest.links()}
}
