package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate"
)

const (
	// acquiredMessage is what client-go's leader election logs when it has the lease, readMessage what our scheduler logs, at
	// verbosity 2, when it has read the bound pods.
	acquiredMessage = `"Successfully acquired lease"`
	readMessage     = `"Bound pods read before the first placement"`
	// klogTime is the second word of a line of klog.
	klogTime = "15:04:05.000000"
)

// Failover is what the death of a leader measured.
type Failover struct {
	Variant string `json:"variant"`
	Nodes   int    `json:"nodes"`
	// ElectionSeconds is the time from the kill to the moment in which the other replica acquired the lease, by the lease
	// itself; BindSeconds is that from there to its first bind.
	ElectionSeconds float64 `json:"electionSeconds"`
	BindSeconds     float64 `json:"bindSeconds"`
	// ReadSeconds is the time from the lease to the moment in which the bound pods have been read once more, by its log; 0
	// where the scheduler does not read them.
	ReadSeconds float64 `json:"readSeconds,omitempty"`
	// Waiting is how many pods waited for the new leader.
	Waiting int `json:"waiting"`
}

// replica is one of the schedulers that take turns.
type replica struct {
	*process.Scheduler
	log string
}

func (b *bench) startReplica(ctx context.Context, v *variant, name string) (*replica, error) {
	b.settings(v, genericWorkload+"=false")
	var s *process.Scheduler
	var err error
	if v.plugins {
		s, err = b.cluster.StartReplica(ctx, name)
	} else {
		s, err = b.cluster.StartReplica(ctx, name, simulate.WithoutPlugins)
	}
	return &replica{s, b.cluster.LogFile(name)}, err
}

// failovers kills as many leaders, each of which a replica outlives that was in sync.
func (b *bench) failovers(ctx context.Context, v *variant, times int) (all []Failover, err error) {
	if err := take(ctx, b.client, ""); err != nil {
		return nil, err
	}
	var alive []*replica
	defer func() {
		for _, r := range alive {
			err = errors.Join(err, r.Stop(context.WithoutCancel(ctx)))
		}
	}()
	for i := range times + 1 {
		r, err := b.startReplica(ctx, v, fmt.Sprintf("%s-%d", v.name, i))
		if err != nil {
			return nil, err
		}
		alive = append(alive, r)
		if i == 0 { // it leads before there is another
			if err := awaitHolder(ctx, b.client, poll, true); err != nil {
				return nil, err
			}
			continue
		}
		f, err := b.failover(ctx, v, alive[0], alive[1])
		if err != nil {
			return nil, fmt.Errorf("%s: %w\nthe log of the new leader ends with:\n%s", v.name, err, r.Tail())
		}
		all, alive = append(all, f), alive[1:]
	}
	return all, nil
}

// failover kills the leader while it binds the first half of the pods; the other half is created when it is dead, so that
// pods wait for the next leader for certain.
func (b *bench) failover(ctx context.Context, v *variant, leader, standby *replica) (Failover, error) {
	ctx, cancel := context.WithTimeout(ctx, roundPatience)
	defer cancel()
	pods := b.size.pods()
	watched, err := b.watch(ctx, pods)
	if err != nil {
		return Failover{}, err
	}
	if err := b.createSome(ctx, noGang, 0, pods/2); err != nil {
		return Failover{}, err
	}
	killed := time.Now()
	if err := leader.Kill(); err != nil {
		return Failover{}, err
	}
	if err := b.createSome(ctx, noGang, pods/2, pods); err != nil {
		return Failover{}, err
	}
	seen, err := watched()
	if err != nil {
		return Failover{}, err
	}
	lease, err := leases(b.client).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil {
		return Failover{}, err
	}
	f := Failover{Variant: v.name, Nodes: b.size.Nodes}
	if err := f.measure(killed, lease, seen); err != nil {
		return Failover{}, err
	}
	if v.plugins {
		if f.ReadSeconds, err = readSeconds(standby.log); err != nil {
			return Failover{}, err
		}
	}
	if err := errors.Join(awaitIdle(ctx, standby.PID()), b.checkAll(ctx, v)); err != nil {
		return Failover{}, err
	}
	return f, b.clear(ctx)
}

// measure reads what was bound before and after the lease went to another.
func (f *Failover) measure(killed time.Time, lease *coordinationv1.Lease, seen *binds) error {
	acquired := ptr.Deref(lease.Spec.AcquireTime, metav1.MicroTime{}).Time
	done := seen.before(acquired)
	switch {
	case !acquired.After(killed):
		return fmt.Errorf("the lease was acquired %s, the leader killed %s: nobody took over", acquired, killed)
	case done == len(seen.times):
		return fmt.Errorf("all %d pods were bound before %s, when the lease was acquired", done, acquired)
	}
	f.ElectionSeconds, f.BindSeconds = acquired.Sub(killed).Seconds(), seen.times[done].Sub(acquired).Seconds()
	f.Waiting = len(seen.times) - done
	return nil
}

// readSeconds reads from a scheduler's log how long after its election it had read the bound pods.
func readSeconds(name string) (float64, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	seconds, err := parseReading(string(text))
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return seconds, nil
}

func parseReading(log string) (float64, error) {
	acquired, err := loggedAt(log, acquiredMessage)
	if err != nil {
		return 0, err
	}
	read, err := loggedAt(log, readMessage)
	if err != nil {
		return 0, err
	}
	if read.Before(acquired) { // klog's lines have no year, and midnight passes
		read = read.AddDate(0, 0, 1)
	}
	return read.Sub(acquired).Seconds(), nil
}

// loggedAt returns the time of day of the first line with a message.
func loggedAt(log, message string) (time.Time, error) {
	before, _, ok := strings.Cut(log, message)
	if !ok {
		return time.Time{}, fmt.Errorf("no line says %s", message)
	}
	line := before[strings.LastIndexByte(before, '\n')+1:]
	words := strings.Fields(line)
	if len(words) < 2 {
		return time.Time{}, fmt.Errorf("line %.64q: no time", line)
	}
	return time.Parse(klogTime, words[1])
}
