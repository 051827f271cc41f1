package fabric

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"text/tabwriter"
)

// seeds is the number of workloads at each load.
const seeds = 10

// communication is how much of a step the gangs of the second run spend on their rings: 30 to 50 % in production
// clusters (arXiv 2509.15940).
const communication = 0.4

// measure adds up outcomes.
type measure struct {
	gangs, leaves, fewest, inOne, couldBeInOne int
	ring, wait                                 float64
	busy, runs                                 float64
	// worse counts the gangs that use more leaves than the fewest.
	worse int
}

func (m *measure) add(o outcome) {
	m.gangs++
	m.leaves += o.leaves
	m.fewest += o.fewest
	if o.leaves == 1 {
		m.inOne++
	}
	if o.fewest == 1 {
		m.couldBeInOne++
	}
	if o.leaves > o.fewest {
		m.worse++
	}
	m.ring += o.ring.GBps()
	m.wait += o.wait
}

func (m *measure) ratio() float64 { return float64(m.leaves) / float64(m.fewest) }
func (m *measure) of(sum float64) float64 {
	return sum / float64(m.gangs)
}

// names are the schedulers in the order of the table.
var names = []string{"ours", "in-tree", "random"}

func newScheduler(t *testing.T, name string, s *site, seed uint64) scheduler {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	switch name {
	case "ours":
		return newOurs(t, s)
	case "in-tree":
		return newInTree(s, rng)
	}
	return &random{rng: rng}
}

// replay runs one workload and adds what became of its measured gangs.
func replay(s *site, sched scheduler, standing, arriving []job, communication float64, m *measure) error {
	q := newQueue(s, sched, communication)
	if err := q.run(standing); err != nil {
		return err
	}
	if err := q.run(arriving[:first]); err != nil {
		return err
	}
	area, since := q.area, q.now
	if err := q.run(arriving[first:last]); err != nil {
		return err
	}
	m.busy += (q.area - area) / (q.now - since) / float64(len(s.hosts))
	m.runs++
	if err := q.run(arriving[last:]); err != nil {
		return err
	}
	if err := q.drain(); err != nil {
		return err
	}
	for _, j := range arriving[first:last] {
		o, ok := q.results[j.id]
		if !ok {
			return fmt.Errorf("gang %d of %d never started", j.id, j.size)
		}
		m.add(o)
	}
	return nil
}

// TestLingjunReplay prints, for each load and scheduler over all seeds:
//
//	busy      hosts in use on average while the measured gangs arrive
//	leaves    leaves of a gang, fewest: the fewest it could have used at the moment when it was placed
//	ratio     sum of leaves / sum of fewest
//	in one    gangs in one leaf, could: gangs that some leaf had enough free hosts for
//	ring      mean bottleneck of the gangs' rings in GB/s
//	wait      mean time from arrival to start, in seconds
//	wait'     the same where slow rings make gangs run longer: see queue.communication
//
// Each scheduler's fewest is for the free hosts that it left itself.
func TestLingjunReplay(t *testing.T) {
	s := lingjun(t)
	runtimes := philly(t)
	if runtimes == nil {
		t.Log("no Philly trace beside the checkout: runtimes are lognormal")
	}
	d := newDemand(runtimes)
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(format string, args ...any) {
		if _, err := fmt.Fprintf(w, format, args...); err != nil {
			t.Fatal(err)
		}
	}
	row("load\tscheduler\tbusy\tleaves\tfewest\tratio\tin one\tcould\tring GB/s\twait s\twait' s\t\n")
	for _, load := range []float64{0.60, 0.80, 0.95} {
		fixed, stretched := runLoad(t, s, d, load)
		for i, name := range names {
			m := &fixed[i]
			row("%.0f%%\t%s\t%.1f%%\t%.3f\t%.3f\t%.3f\t%.1f%%\t%.1f%%\t%.1f\t%.0f\t%.0f\t\n", 100*load, name, 100*m.busy/m.runs,
				m.of(float64(m.leaves)), m.of(float64(m.fewest)), m.ratio(), 100*m.of(float64(m.inOne)), 100*m.of(float64(m.couldBeInOne)),
				m.of(m.ring), m.of(m.wait), stretched[i].of(stretched[i].wait))
		}
		judge(t, load, fixed, stretched)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d hosts, %d seeds, %d gangs of 1 to %d pods each\n%s", len(s.hosts), seeds, last-first, largest, out.String())
}

// runLoad replays the workloads of one load with every scheduler: with runtimes as they are, and stretched by slow rings.
func runLoad(t *testing.T, s *site, d *demand, load float64) (fixed, stretched []measure) {
	t.Helper()
	fixed, stretched = make([]measure, len(names)), make([]measure, len(names))
	for seed := range uint64(seeds) {
		standing, arriving := d.workload(rand.New(rand.NewPCG(seed, 1)), load, len(s.hosts))
		for i, name := range names {
			if err := replay(s, newScheduler(t, name, s, seed), standing, arriving, 0, &fixed[i]); err != nil {
				t.Fatalf("load %g, seed %d, %s: %v", load, seed, name, err)
			}
			if err := replay(s, newScheduler(t, name, s, seed), standing, arriving, communication, &stretched[i]); err != nil {
				t.Fatalf("load %g, seed %d, %s, stretched: %v", load, seed, name, err)
			}
		}
	}
	return fixed, stretched
}

// judge holds our numbers of one load against the fewest leaves and against the in-tree scheduler's.
func judge(t *testing.T, load float64, fixed, stretched []measure) {
	t.Helper()
	us, tree := &fixed[0], &fixed[1]
	for _, m := range []*measure{us, &stretched[0]} {
		if m.ratio() > 1.02 {
			t.Errorf("load %g: %.4f times the fewest leaves, the limit is 1.02", load, m.ratio())
		}
		// A gang of one kind of member is placed exactly.
		if m.worse > 0 {
			t.Errorf("load %g: %d of %d gangs use more leaves than the fewest of the narrowest domain", load, m.worse, m.gangs)
		}
	}
	if us.ratio() > tree.ratio() || us.leaves > tree.leaves || us.inOne < tree.inOne {
		t.Errorf("load %g: %d leaves (ratio %.3f), %d gangs in one leaf; the in-tree scorer: %d (%.3f), %d",
			load, us.leaves, us.ratio(), us.inOne, tree.leaves, tree.ratio(), tree.inOne)
	}
	if us.ring < tree.ring {
		t.Errorf("load %g: rings run at %.1f GB/s on average, the in-tree scorer's at %.1f", load, us.of(us.ring), tree.of(tree.ring))
	}
	// Where the same hosts suffice, which ones are taken must not cost a gang its start.
	if us.wait != tree.wait {
		t.Errorf("load %g: gangs wait %.1f s, with the in-tree scorer %.1f s", load, us.of(us.wait), tree.of(tree.wait))
	}
	if stretched[0].wait > stretched[1].wait {
		t.Errorf("load %g: gangs with slow rings wait %.1f s, with the in-tree scorer %.1f s",
			load, stretched[0].of(stretched[0].wait), stretched[1].of(stretched[1].wait))
	}
	if busy := us.busy / us.runs; busy < load-0.1 || busy > load+0.1 {
		t.Errorf("load %g: %.3f of the hosts are in use, so the replay is not at that load", load, busy)
	}
}
