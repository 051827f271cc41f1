package book

import (
	"cmp"
	"strconv"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
)

// The bands of pods of equal priority in the queue, first to last.
const (
	// bandHeld is for members of a gang that holds cards: the sooner they are through, the sooner it runs or gives back.
	bandHeld int8 = iota
	// bandTurn is for the gang whose turn it is.
	bandTurn
	// bandPlain is for everybody else.
	bandPlain
	// bandFailed is for gangs whose last plan failed: behind their peers, whoever failed longest ago first.
	bandFailed
)

// Order is the place of a pod in the queue among pods of equal priority, by its fields from first to last. It is a total
// order of pods for any state of the gangs.
type Order struct {
	band int8
	// since is a time in nanoseconds: when the PodGroup was created or last failed, or the pod was queued.
	since int64
	key   GroupKey
	rank  int
	name  string
}

// groupOrder is what the order of members depends on.
type groupOrder struct {
	band  int8
	since int64
}

// Compare is negative if o goes before p.
func (o Order) Compare(p Order) int {
	return cmp.Or(cmp.Compare(o.band, p.band), cmp.Compare(o.since, p.since), o.key.compare(p.key),
		cmp.Compare(o.rank, p.rank), cmp.Compare(o.name, p.name))
}

func (k GroupKey) compare(o GroupKey) int {
	return cmp.Or(cmp.Compare(k.Namespace, o.Namespace), cmp.Compare(k.Name, o.Name))
}

// OrderOf returns the pod's place. queued is when the queue took it, in nanoseconds, which counts for pods without a gang;
// members whose PodGroup is not known yet stand by their own creation.
func (b *Book) OrderOf(pod *v1.Pod, queued int64) Order {
	key, named := KeyOf(pod)
	if !named {
		return PlainOrder(pod.Namespace, pod.Name, queued)
	}
	o := Order{key: key, name: pod.Name, rank: -1}
	if rank, known := RankOf(pod); known {
		o.rank = rank
	}
	b.queue.RLock()
	g, known := b.orders[key]
	b.queue.RUnlock()
	if !known {
		g = groupOrder{band: bandPlain, since: pod.CreationTimestamp.UnixNano()}
	}
	o.band, o.since = g.band, g.since
	return o
}

// setOrder publishes the order of a group's members; nil for a group that is gone.
func (b *Book) setOrder(key GroupKey, o *groupOrder) {
	b.queue.Lock()
	defer b.queue.Unlock()
	if o == nil {
		delete(b.orders, key)
		return
	}
	if b.orders[key] != *o {
		b.orders[key] = *o
	}
}

// orderOf is the order of a group as it stands. The caller holds mu.
func (b *Book) orderOf(g *group) *groupOrder {
	if !g.known {
		return nil
	}
	o := &groupOrder{band: bandPlain, since: g.facts.Created.UnixNano()}
	if g.state == nil {
		return o
	}
	w := b.withheld.Load()
	switch c := g.state.Counts(); {
	case c.Planned+c.Reserved+c.Admitted > 0:
		o.band = bandHeld
	case w != nil && w.Group == g.key:
		o.band = bandTurn
	case g.state.Failures() > 0 && g.state.Phase() == gang.PhaseForming:
		o.band, o.since = bandFailed, g.failed.UnixNano()
	}
	return o
}

// rankLabels are the labels and annotations that hold a member's index, most specific first: the product's own, then those
// of Kubeflow (training.kubeflow.org), JobSet, LeaderWorkerSet, Indexed Jobs and StatefulSets.
var rankLabels = []string{
	"gputopology.io/rank",
	"training.kubeflow.org/replica-index",
	"jobset.sigs.k8s.io/job-global-index",
	"leaderworkerset.sigs.k8s.io/worker-index",
	"batch.kubernetes.io/job-completion-index",
	"apps.kubernetes.io/pod-index",
}

// RankOf returns the member's rank as its labels or annotations say it, which is 0 or more.
func RankOf(pod *v1.Pod) (int, bool) {
	for _, key := range rankLabels {
		text, ok := pod.Labels[key]
		if !ok {
			text, ok = pod.Annotations[key]
		}
		if !ok {
			continue
		}
		if rank, err := strconv.Atoi(text); err == nil && rank >= 0 {
			return rank, true
		}
	}
	return 0, false
}

// PlainOrder is the order of an entry that is no member of a gang of ours.
func PlainOrder(namespace, name string, queued int64) Order {
	return Order{band: bandPlain, since: queued, key: GroupKey{Namespace: namespace}, name: name}
}
