package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/test/chaos/checker"
	"github.com/gputopology/gpu-topology-scheduler/test/chaos/faults"
)

// samplePeriod is the time between two looks at each replica.
const samplePeriod = 500 * time.Millisecond

// stats is what a run was made of.
type stats struct {
	pods, gangs, damaged  int
	kills, pauses         int
	watches, restsReached int
	exits                 map[string]int

	// mu guards what the sampler writes.
	mu sync.Mutex
	// lives are by replica and number.
	lives   map[string]*life
	leaders int
	leader  string
}

// life is what was seen of one process.
type life struct {
	rss     []int64
	sweep   checker.Sweep
	metrics checker.Metrics
	// memory is measured in some runs only.
	memory []memory
}

// longLife is the number of samples from which on the memory of a life says something.
const longLife = 40

func newStats() *stats { return &stats{exits: map[string]int{}, lives: map[string]*life{}} }

// sample looks at the replicas until ctx ends.
func (s *stats) sample(ctx context.Context, all []*replica) {
	// The replicas made their certificates for themselves; loopback is what we trust.
	client := &http.Client{Timeout: samplePeriod, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(samplePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			for _, r := range all {
				s.sampleReplica(ctx, client, r)
			}
		}
	}
}

func (s *stats) sampleReplica(ctx context.Context, client *http.Client, r *replica) {
	r.mu.Lock()
	p, paused, name, probes := r.process, r.paused, r.lifeName(), r.probes
	r.mu.Unlock()
	if p == nil || paused {
		return // a stopped leader is still the one to kill
	}
	rss, known := residentBytes(p.PID())
	summary, err := checker.FetchSummary(ctx, client, r.state)
	leads := err == nil && summary.Leading
	r.leading.Store(leads)
	metrics, metricsErr := checker.FetchMetrics(ctx, client, probes)
	sweep, sweepErr := checker.FetchSweep(ctx, client, r.state) // it has every repair that was counted
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.life(name)
	if known {
		l.rss = append(l.rss, rss)
	}
	if sweepErr == nil {
		l.sweep = sweep
	}
	if metricsErr == nil {
		l.metrics = metrics
	}
	if leads && s.leader != name {
		s.leader = name
		s.leaders++
	}
}

// life returns the life of that name. The caller holds mu.
func (s *stats) life(name string) *life {
	l := s.lives[name]
	if l == nil {
		l = &life{}
		s.lives[name] = l
	}
	return l
}

// lateRepairs are repairs of what two sweeps in a row found, seconds apart, and of reservations that a pod's next cycle found
// left over: something did not tell the ledger what it had to. The scheduler mends that, which is no reason to be at peace
// with it. Other kinds tell of what the chaos broke, or, tombstone, of one informer that is behind another.
var lateRepairs = []string{"orphan", "expired", "unconfirmed", "left-over"}

// needless returns the repairs that should not have been necessary. excused is told the name of a life.
func (s *stats) needless(excused func(life string, r checker.Repair) bool) []checker.Violation {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bad []checker.Violation
	for _, name := range sortedKeys(s.lives) {
		l := s.lives[name]
		for _, kind := range lateRepairs {
			n, about, text := l.metrics.Repairs[kind], []string(nil), ""
			for _, r := range l.sweep.Last {
				switch {
				case r.Kind != kind:
				case excused(name, r):
					n--
				default:
					about, text = append(about, r.Pod, r.Node), fmt.Sprintf("pod %s on node %s: %s", r.Pod, r.Node, r.Detail)
				}
			}
			if n > 0 {
				bad = append(bad, checker.Violation{Law: "repair", Text: fmt.Sprintf("%s repaired %d of kind %s: %s", name, n, kind, text), About: about})
			}
		}
	}
	return bad
}

// residentBytes is the memory of a process; false where the system does not tell.
func residentBytes(pid int) (int64, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, false
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0, false
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize()), err == nil
}

// thirds returns the mean of the first and of the last third, without the start of the process; false for a short life.
func (l *life) thirds() (first, last int64, ok bool) {
	n := len(l.rss)
	if n < longLife {
		return 0, 0, false
	}
	settled := l.rss[n/10:]
	third := len(settled) / 3
	return mean(settled[:third]), mean(settled[len(settled)-third:]), true
}

func mean(values []int64) int64 {
	var sum int64
	for _, v := range values {
		sum += v
	}
	return sum / int64(len(values))
}

// print writes the statistics of a run.
func (d *driver) print(seed uint64, duration time.Duration) {
	s := d.stats
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[faults.Kind]int{}
	total := 0
	for _, r := range d.replicas {
		for kind, n := range r.proxy.Counts() {
			counts[kind] += n
			total += n
		}
	}
	sweeps, repairs, outcomes, rollbacks := 0, map[string]int{}, map[string]int{}, map[string]int{}
	var lives strings.Builder
	for _, name := range sortedKeys(s.lives) {
		l := s.lives[name]
		sweeps += l.sweep.Sweeps
		add(repairs, l.metrics.Repairs)
		add(outcomes, l.metrics.Binds)
		add(rollbacks, l.metrics.Rollbacks)
		if report := l.memoryReport(); report != "" {
			fmt.Fprintf(&lives, "\n  %s, %s", name, report)
		} else if first, last, ok := l.thirds(); ok {
			fmt.Fprintf(&lives, "\n  %s, %d samples: first third %.1f MiB, last third %.1f MiB", name, len(l.rss), mibOf(first), mibOf(last))
		}
	}
	d.view.mu.Lock()
	binds, violations := d.view.binds, len(d.view.bad)
	d.view.mu.Unlock()
	d.t.Logf(`chaos, seed %d, %v of faults in %v
pods created %d, binds %d, gangs created %d, records damaged %d
faults %d: %s; watches cut %d
kills %d, pauses %d, changes of leader %d, lives %d, exits: %s
bind outcomes: %s; rollbacks: %s
sweeps %d, repairs: %s
came to rest %d times, violations %d
memory of the scheduler:%s`, seed, duration, d.now().Round(time.Second), s.pods, binds, s.gangs, s.damaged, total, kinds(counts), s.watches,
		s.kills, s.pauses, s.leaders, len(s.lives), kinds(s.exits), kinds(outcomes), kinds(rollbacks), sweeps, kinds(repairs), s.restsReached, violations, lives.String())
}

func add(sum map[string]int, counts checker.Counts) {
	for kind, n := range counts {
		sum[kind] += n
	}
}

func mibOf(bytes int64) float64 { return float64(bytes) / float64(mib) }

func kinds[K ~string](counts map[K]int) string {
	named := map[string]int{}
	for kind, n := range maps.All(counts) {
		named[string(kind)] = n
	}
	var parts []string
	for _, kind := range sortedKeys(named) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, named[kind]))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}
