package fabric

import (
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// traces is the folder of public traces, which stands beside the checkout.
var traces = filepath.Join("..", "..", "..", "shared", "traces")

// The bottleneck of a ring through whole hosts by what it crosses, in MB/s: 18 NVLinks of 20.6 GB/s inside a host, and
// what leaves it over 8 NICs of 50 GB/s, which one spine divides by 1.2 and one core by 2.
const (
	ringInside = 370_800
	ringSpine  = 333_333
	ringCore   = 200_000
)

// site is the network as the trace has it. Hosts are numbered in the order of the trace.
type site struct {
	hosts  []string
	labels []map[string]string
	// leaf and spine say for each host in which one it is; spineOf says it for each leaf.
	leaf, spine, spineOf []int
	spines               int
}

// lingjun reads the network of Alibaba's Lingjun dataset: 847 hosts below 119 groups of leaf switches (ASW), 3 spines
// (PSW) and one core (DSW). The names of leaves repeat across spines.
func lingjun(t *testing.T) *site {
	t.Helper()
	s := &site{}
	leaves, spines := map[[2]string]int{}, map[string]int{}
	for _, row := range rows(t, filepath.Join("lingjun", "topo.csv")) {
		host, core, spine, leaf := row[0], row[1], row[2], row[3]
		if _, ok := spines[spine]; !ok {
			spines[spine] = len(spines)
		}
		key := [2]string{spine, leaf}
		if _, ok := leaves[key]; !ok {
			leaves[key] = len(leaves)
			s.spineOf = append(s.spineOf, spines[spine])
		}
		s.hosts = append(s.hosts, host)
		s.leaf = append(s.leaf, leaves[key])
		s.spine = append(s.spine, spines[spine])
		s.labels = append(s.labels, map[string]string{
			"network.topology.nvidia.com/leaf": leaf, "network.topology.nvidia.com/spine": spine, "network.topology.nvidia.com/core": core,
		})
	}
	s.spines = len(spines)
	if len(s.hosts) != 847 || len(leaves) != 119 || s.spines != 3 {
		t.Fatalf("%d hosts, %d leaves, %d spines; the trace has 847, 119 and 3", len(s.hosts), len(leaves), s.spines)
	}
	return s
}

// rows returns the rows of a trace without the header, or skips the test where the trace is not there.
func rows(t *testing.T, name string) [][]string {
	t.Helper()
	file, err := os.Open(filepath.Join(traces, name))
	if err != nil {
		t.Skipf("no trace beside the checkout: %v", err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return all[1:]
}

// philly returns the job runtimes of Microsoft's Philly trace in seconds, nil where the trace is not there.
func philly(t *testing.T) []float64 {
	t.Helper()
	name := filepath.Join("philly", "philly_runtime.csv")
	if _, err := os.Stat(filepath.Join(traces, name)); err != nil {
		return nil
	}
	var out []float64
	for i, row := range rows(t, name) {
		seconds, err := strconv.ParseFloat(row[0], 64)
		if err != nil {
			t.Fatalf("%s: row %d: %v", name, i+2, err)
		}
		out = append(out, seconds)
	}
	return out
}

// leavesOf is the number of leaves of the hosts.
func (s *site) leavesOf(hosts []int) int {
	seen := map[int]bool{}
	for _, h := range hosts {
		seen[s.leaf[h]] = true
	}
	return len(seen)
}

// ringOf is the bottleneck of a ring through all cards of the hosts.
func (s *site) ringOf(hosts []int) topology.Bandwidth {
	rate := topology.Bandwidth(ringInside)
	for _, h := range hosts {
		switch {
		case s.spine[h] != s.spine[hosts[0]]:
			return ringCore
		case s.leaf[h] != s.leaf[hosts[0]]:
			rate = ringSpine
		}
	}
	return rate
}

// fewestLeaves is the smallest number of leaves of size free hosts in one domain of the narrowest level that has a domain
// with so many: a leaf, a spine, or the whole network; 0 if there is none.
func (s *site) fewestLeaves(free []bool, size int) int {
	room := make([]int, len(s.spineOf))
	for h, ok := range free {
		if ok {
			room[s.leaf[h]]++
		}
	}
	if slices.Max(room) >= size {
		return 1
	}
	best := 0
	for spine := range s.spines {
		var within []int
		for l, n := range room {
			if s.spineOf[l] == spine {
				within = append(within, n)
			}
		}
		if n := fewest(within, size); n > 0 && (best == 0 || n < best) {
			best = n
		}
	}
	if best > 0 {
		return best
	}
	return fewest(room, size)
}

// fewest is the smallest number of leaves with the given room that hold size hosts, 0 if all together do not.
func fewest(room []int, size int) int {
	room = slices.Clone(room)
	slices.Sort(room)
	slices.Reverse(room)
	for i, n := range room {
		if size -= n; size <= 0 {
			return i + 1
		}
	}
	return 0
}

func TestFewestLeaves(t *testing.T) {
	// Spine 0 has leaves 0 and 1 of three and two hosts, spine 1 leaf 2 of three.
	s := &site{leaf: []int{0, 0, 0, 1, 1, 2, 2, 2}, spineOf: []int{0, 0, 1}, spines: 2}
	tests := map[string]struct {
		busy []int
		size int
		want int
	}{
		"one leaf":                           {size: 3, want: 1},
		"two leaves of a spine":              {size: 4, want: 2},
		"a spine before fewer leaves":        {busy: []int{2, 5}, size: 4, want: 2},
		"the fullest leaves across spines":   {busy: []int{2}, size: 5, want: 2},
		"everything":                         {size: 8, want: 3},
		"too many":                           {size: 9, want: 0},
		"the leaf that still has room":       {busy: []int{0, 5}, size: 2, want: 1},
		"the spine that still has the hosts": {busy: []int{5, 6, 7}, size: 5, want: 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			free := slices.Repeat([]bool{true}, len(s.leaf))
			for _, h := range tc.busy {
				free[h] = false
			}
			if got := s.fewestLeaves(free, tc.size); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

// host is 8 H100 joined by NVSwitch, each with a NIC of its own behind one PCIe bridge.
func host(t *testing.T) *topology.Node {
	t.Helper()
	spec := topology.Spec{NVSwitch: true}
	for i := range 8 {
		spec.Cards = append(spec.Cards, topology.Card{
			UUID: fmt.Sprintf("GPU-%d", i), Product: "NVIDIA H100 80GB HBM3", VRAMBytes: 80 << 30, NUMA: i / 4, Healthy: true,
		})
		nic := topology.NIC{Name: fmt.Sprintf("mlx5_%d", i), Links: slices.Repeat([]topology.LinkType{topology.LinkSYS}, 8)}
		nic.Links[i] = topology.LinkPIX
		spec.NICs = append(spec.NICs, nic)
	}
	n, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
