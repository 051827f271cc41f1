package engine

import (
	"context"
	"slices"
	"strings"

	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/introspect"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

// maxSentence bounds a sentence in an answer of the state endpoint, in bytes: some name every pod of a node.
const maxSentence = 1024

// serveState starts the state endpoint, if there is an address. The caller holds mu.
func (e *Engine) serveState(ctx context.Context) error {
	if e.stateAddress == nil || *e.stateAddress == "" {
		return nil
	}
	server, err := introspect.Listen(*e.stateAddress, inside{e})
	if err != nil {
		return err
	}
	logger := klog.FromContext(ctx)
	logger.Info("Serving the scheduler's state to everybody who can connect", "address", server.Addr(), "loopback", e.stateAddress.Loopback())
	loops, stop := context.WithCancel(ctx)
	e.stops = append(e.stops, stop)
	e.done.Go(func() {
		if err := server.Run(loops); err != nil {
			logger.Error(err, "The state is not served any more")
		}
	})
	return nil
}

// inside is the engine as the state endpoint sees it. It implements introspect.Source.
type inside struct{ *Engine }

// Summary implements introspect.Source.
func (i inside) Summary() introspect.Summary {
	s := introspect.Summary{Synced: i.HasSynced(), Leading: i.leading(), Suspects: i.ledger.Stats().Unknown}
	for a := range i.ledger.States() {
		c := countCards(a)
		s.Nodes++
		s.Cards += c.all()
		if a.Quarantined {
			s.Quarantined += c.all()
			continue
		}
		s.Held += c.held + c.foreign
		s.Free += c.free
	}
	return s
}

// leading asks the leader election too: a replica that was just elected has scheduled nothing yet. There is no election before
// the informers are in sync.
func (e *Engine) leading() bool {
	if e.placing.Load() {
		return true
	}
	if !e.HasSynced() {
		return false
	}
	leads, err := metrics.Leads()
	return err == nil && leads
}

// Pods implements introspect.Source. A token is the node's name, a slash, and the UID.
func (i inside) Pods(after string, limit int) (items []introspect.Pod, next string) {
	from, uid, _ := strings.Cut(after, "/")
	names := i.ledger.NodeNames()
	at, _ := slices.BinarySearch(names, ledger.NodeName(from))
	for _, name := range names[at:] {
		for _, entry := range i.ledger.On(name) {
			if string(name) == from && string(entry.UID) <= uid {
				continue
			}
			if len(items) == limit {
				return items, next
			}
			items, next = append(items, podOf(&entry)), string(name)+"/"+string(entry.UID)
		}
	}
	return items, ""
}

func podOf(entry *ledger.Entry) introspect.Pod {
	p := introspect.Pod{
		UID: string(entry.UID), Pod: entry.Pod, Node: string(entry.Node), Stage: entry.Stage.String(), Cooling: observe.Cooling(entry.UID),
		Cards: make([]introspect.CardShare, len(entry.Cards)), UnknownCards: entry.UnknownCards,
		UnknownMIG: make([]introspect.ProfileCount, len(entry.UnknownMIG)),
	}
	if p.Cooling {
		p.UID, p.Pod = strings.TrimPrefix(p.UID, observe.CoolingPrefix), strings.TrimPrefix(p.Pod, observe.CoolingPrefix)
	}
	for i := range entry.Cards {
		c := &entry.Cards[i]
		p.Cards[i] = introspect.CardShare{
			Index: c.Index, UUID: c.UUID, SliceMask: v1alpha1.SliceMask(c.SliceMask).String(), VRAMBytes: c.VRAMBytes,
			ComputeMilli: c.ComputeMilli, MIG: c.MIGProfile,
		}
	}
	for i, m := range entry.UnknownMIG {
		p.UnknownMIG[i] = introspect.ProfileCount{Profile: m.Profile, Count: m.Count}
	}
	return p
}

// Nodes implements introspect.Source. A token is the node's name.
func (i inside) Nodes(after string, limit int) (items []introspect.Node, next string) {
	names := i.ledger.NodeNames()
	at, found := slices.BinarySearch(names, ledger.NodeName(after))
	if found {
		at++
	}
	for _, name := range names[at:] {
		a := i.ledger.Node(name)
		if a == nil {
			continue // has holdings, and is no node of the cluster
		}
		if len(items) == limit {
			return items, next
		}
		items, next = append(items, nodeOf(a)), string(name)
	}
	return items, ""
}

func nodeOf(a *ledger.NodeGPUAllocation) introspect.Node {
	c := countCards(a)
	n := introspect.Node{
		Name: string(a.Name), Cards: c.all(), Free: c.free, Held: c.held, Closed: c.closed, Unusable: c.unusable, Foreign: c.foreign,
		Quarantine: cut(a.Quarantine(), maxSentence), Conflicts: []string{}, Missing: len(a.Missing()),
	}
	for _, conflict := range a.Conflicts()[:min(len(a.Conflicts()), introspect.MaxConflicts)] {
		n.Conflicts = append(n.Conflicts, cut(conflict.String(), maxSentence))
	}
	return n
}

// Gangs implements introspect.Source. A token is the namespace, a slash, and the name.
func (i inside) Gangs(after string, limit int) (items []introspect.Gang, next string) {
	namespace, name, _ := strings.Cut(after, "/")
	listed, more := i.book.Gangs(book.GroupKey{Namespace: namespace, Name: name}, limit, introspect.MaxPlanned)
	for j := range listed {
		items = append(items, gangOf(&listed[j]))
	}
	if more {
		next = items[len(items)-1].Gang
	}
	return items, next
}

func gangOf(l *book.Listed) introspect.Gang {
	g := introspect.Gang{
		Gang: l.Key.String(), UID: string(l.UID), Phase: l.Phase, MinMember: l.MinMember, Members: l.Members, Held: l.Held, Bound: l.Bound,
		Reason: cut(l.Reason, maxSentence),
	}
	if len(l.Planned) > 0 {
		g.Plan = &introspect.Plan{ID: l.PlanID, Members: make([]introspect.PlannedMember, len(l.Planned))}
		for i, m := range l.Planned {
			g.Plan.Members[i] = introspect.PlannedMember{Pod: m.Pod, Node: string(m.Node), Rank: m.Rank}
		}
	}
	return g
}

// Sweep implements introspect.Source.
func (i inside) Sweep() introspect.Sweep {
	last := i.LastSweep()
	s := introspect.Sweep{
		Sweeps: last.Sweeps, Started: last.Started, DurationSeconds: last.Duration.Seconds(),
		Pods: last.Pods, Nodes: last.Nodes, Suspected: last.Suspected,
		Repairs: make(map[string]int64, len(last.Repairs)), Last: make([]introspect.Repair, len(last.Last)),
	}
	for kind, n := range last.Repairs {
		s.Repairs[string(kind)] = n
	}
	for j, r := range last.Last {
		s.Last[j] = introspect.Repair{At: r.At, Kind: string(r.Kind), Pod: r.Pod, Node: string(r.Node), Detail: cut(r.Detail, maxSentence)}
	}
	return s
}
