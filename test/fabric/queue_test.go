package fabric

import (
	"cmp"
	"container/heap"
	"errors"
	"fmt"
	"slices"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// scheduler chooses hosts.
type scheduler interface {
	// place returns the hosts of a gang for which enough are free. It does not keep or change free.
	place(j *job, free []bool) ([]int, error)
	// release takes note that a gang has ended.
	release(j *job, hosts []int) error
}

// outcome is what became of a gang.
type outcome struct {
	leaves, fewest int
	ring           topology.Bandwidth
	wait           float64
}

// queue starts gangs in the order of their arrival and passes over those that do not fit.
type queue struct {
	site  *site
	sched scheduler
	// communication is the part of a step in which a gang waits for its ring, where the ring is as fast as it can be. The
	// rest does not depend on the ring:
	//
	//	runtime x (1 + communication x (ringInside / ring - 1))
	//
	// Example: at 0.4 a ring through the core, at 200 of 370.8 GB/s, makes an hour 81 minutes.
	communication float64

	now     float64
	free    []bool
	left    int
	running departures
	waiting []*job
	// area is the sum of hosts in use over time.
	area    float64
	results map[int]outcome
}

type departure struct {
	at    float64
	job   *job
	hosts []int
}

type departures []departure

func (d departures) Len() int { return len(d) }

func (d departures) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(d[i].at, d[j].at), cmp.Compare(d[i].job.id, d[j].job.id)) < 0
}

func (d departures) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d *departures) Push(x any) {
	if dep, ok := x.(departure); ok {
		*d = append(*d, dep)
	}
}

func (d *departures) Pop() any {
	end := len(*d) - 1
	out := (*d)[end]
	*d = (*d)[:end]
	return out
}

func newQueue(s *site, sched scheduler, communication float64) *queue {
	return &queue{
		site: s, sched: sched, communication: communication, free: slices.Repeat([]bool{true}, len(s.hosts)),
		left: len(s.hosts), results: map[int]outcome{},
	}
}

// run takes in jobs in the order of their arrival until the last one came.
func (q *queue) run(jobs []job) error {
	for i := range jobs {
		j := &jobs[i]
		if err := q.until(j.arrive); err != nil {
			return err
		}
		started, err := q.start(j)
		if err != nil {
			return err
		}
		if !started {
			q.waiting = append(q.waiting, j)
		}
	}
	return nil
}

// drain goes on until no gang waits.
func (q *queue) drain() error {
	for len(q.waiting) > 0 {
		if len(q.running) == 0 {
			return fmt.Errorf("a gang of %d waits in an empty cluster", q.waiting[0].size)
		}
		if err := q.until(q.running[0].at); err != nil {
			return err
		}
	}
	return nil
}

// until moves time on; gangs end and others start in their places.
func (q *queue) until(t float64) error {
	for len(q.running) > 0 && q.running[0].at <= t {
		d, ok := heap.Pop(&q.running).(departure)
		if !ok {
			return errors.New("the heap holds what is no departure")
		}
		q.pass(d.at)
		if err := q.sched.release(d.job, d.hosts); err != nil {
			return err
		}
		for _, h := range d.hosts {
			q.free[h] = true
		}
		q.left += len(d.hosts)
		if err := q.retry(); err != nil {
			return err
		}
	}
	q.pass(t)
	return nil
}

func (q *queue) pass(t float64) {
	q.area += (t - q.now) * float64(len(q.free)-q.left)
	q.now = t
}

func (q *queue) retry() error {
	still := q.waiting[:0]
	for _, j := range q.waiting {
		started, err := q.start(j)
		if err != nil {
			return err
		}
		if !started {
			still = append(still, j)
		}
	}
	q.waiting = still
	return nil
}

// start places the gang, if enough hosts are free, and holds what the scheduler says against what is free.
func (q *queue) start(j *job) (bool, error) {
	if j.size > q.left {
		return false, nil
	}
	fewest := q.site.fewestLeaves(q.free, j.size)
	hosts, err := q.sched.place(j, q.free)
	if err != nil {
		return false, fmt.Errorf("gang %d of %d with %d hosts free: %w", j.id, j.size, q.left, err)
	}
	if len(hosts) != j.size {
		return false, fmt.Errorf("gang %d of %d got %d hosts", j.id, j.size, len(hosts))
	}
	for _, h := range hosts {
		if !q.free[h] {
			return false, fmt.Errorf("gang %d got host %d, which is in use", j.id, h)
		}
		q.free[h] = false
	}
	q.left -= len(hosts)
	ring := q.site.ringOf(hosts)
	q.results[j.id] = outcome{leaves: q.site.leavesOf(hosts), fewest: fewest, ring: ring, wait: q.now - j.arrive}
	slower := 1 + q.communication*(float64(ringInside)/float64(ring)-1)
	heap.Push(&q.running, departure{at: q.now + j.runtime*slower, job: j, hosts: hosts})
	return true, nil
}
