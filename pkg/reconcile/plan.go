package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// Kind says in which way ledger and API differed.
type Kind string

// The kinds, in the order in which repairs are made: what charges comes before what frees.
const (
	// Missing: a living bound pod holds cards and the ledger has nothing for it. It is charged.
	Missing Kind = "missing"
	// Differing: the ledger has a living bound pod on another node, lacks cards that its record names, or its claims count
	// otherwise now. It is charged anew.
	Differing Kind = "differing"
	// Unconfirmed: a pod is bound as reserved, and nobody told the ledger. It is confirmed.
	Unconfirmed Kind = "unconfirmed"
	// Tombstone: the ledger takes a living bound pod for gone. It is charged.
	Tombstone Kind = "tombstone"
	// Edited: the record of a bound pod names other cards than it started with. It is reported and nothing changes.
	Edited Kind = "record-edited"
	// Orphan: the ledger holds cards for a pod that is gone. They are released.
	Orphan Kind = "orphan"
	// Expired: a pod that is not bound has held cards for longer than any scheduling cycle takes. They are given back.
	Expired Kind = "expired"
	// NodeMissing: the ledger did not know a node that has GPUs. It knows it now.
	NodeMissing Kind = "node-missing"
	// NodeGone: the ledger knew a node that is gone, or has no GPUs any more. It is forgotten.
	NodeGone Kind = "node-gone"
	// Quarantine: what pods hold on a node contradicts its cards, which was not so at the last sweep. The ledger keeps new
	// pods away until it agrees again.
	Quarantine Kind = "quarantine"
)

// Kinds lists all kinds in that order.
func Kinds() []Kind {
	return []Kind{Missing, Differing, Unconfirmed, Tombstone, Edited, Orphan, Expired, NodeMissing, NodeGone, Quarantine}
}

const (
	// confirmAfter is how long before a sweep that confirms a suspicion the sweep lies that raised it, at least. Between
	// an informer's store and its handlers lie milliseconds.
	confirmAfter = 5 * time.Second
	// assumedLimit is the age at which the reservation of a pod that is not bound is taken for left over. The longest
	// cycle waits 15 minutes at Permit (the framework's limit) and 10 for volumes (VolumeBinding's default); a cycle that
	// lasts longer is refused its Binding and tried again.
	assumedLimit = 45 * time.Minute
)

// Seen is what the API shows of a living pod.
type Seen struct {
	UID ledger.PodUID
	// Pod is "namespace/name".
	Pod string
	// Node is where it is bound, empty while it is not.
	Node ledger.NodeName
	// Holds says that it is bound and holds GPUs; Charge is what.
	Holds  bool
	Charge ledger.Holding
	// Released says that the ledger takes it for gone.
	Released bool
}

// Suspicion is what one sweep found and the next has to confirm.
type Suspicion struct {
	// Kind is what the repair would be.
	Kind Kind
	// Revision is the holding that is meant (ledger.Entry.Revision), 0 where the ledger has none. A suspicion about another
	// holding is a new one.
	Revision uint64
	// Since is when it was raised.
	Since time.Time
}

// View is what a sweep has read.
type View struct {
	// Now is when the sweep began.
	Now time.Time
	// Held is what the ledger has, without what cools down. What is known to agree may be left out of Held and Seen alike.
	Held []ledger.Entry
	// Seen is what the API shows of the pods of Held that live, and of living pods that hold GPUs and are not in Held.
	Seen []Seen
	// InFlight are the pods of Held that wait at Permit or whose Binding is being sent.
	InFlight map[ledger.PodUID]bool
	// Before are the suspicions of the sweep before this one.
	Before map[ledger.PodUID]Suspicion
}

// Repair is one difference that is to be mended, or to be told of.
type Repair struct {
	Kind Kind
	// UID and Pod name the pod, empty for a node. Node is where the cards are.
	UID  ledger.PodUID
	Pod  string
	Node ledger.NodeName
	// Detail says in one sentence what was found.
	Detail string
	// Revision is the holding that is meant, 0 where the ledger has none: a repair of another one is void.
	Revision uint64
}

// Plan compares and says what to repair, and what to look at again. Its result depends on the view alone; the repairs
// come in the order of Kinds, then by node and UID.
func Plan(v View) ([]Repair, map[ledger.PodUID]Suspicion) {
	p := plan{View: v, after: map[ledger.PodUID]Suspicion{}}
	seen := make(map[ledger.PodUID]*Seen, len(v.Seen))
	for i := range v.Seen {
		seen[v.Seen[i].UID] = &v.Seen[i]
	}
	held := make(map[ledger.PodUID]*ledger.Entry, len(v.Held))
	for i := range v.Held {
		held[v.Held[i].UID] = &v.Held[i] // of a pod that moved while it was read, the entry read last
	}
	for uid, e := range held {
		p.judge(e, seen[uid])
	}
	for uid, s := range seen {
		if held[uid] == nil && s.Holds {
			p.unheld(s)
		}
	}
	sortRepairs(p.repairs)
	return p.repairs, p.after
}

// sortRepairs sorts by kind, node and UID.
func sortRepairs(repairs []Repair) {
	slices.SortFunc(repairs, func(a, b Repair) int {
		return cmp.Or(cmp.Compare(rank(a.Kind), rank(b.Kind)), cmp.Compare(a.Node, b.Node), cmp.Compare(a.UID, b.UID))
	})
}

func rank(k Kind) int { return slices.Index(Kinds(), k) }

type plan struct {
	View
	repairs []Repair
	after   map[ledger.PodUID]Suspicion
}

// judge compares a holding with its pod; s is nil for a pod that does not live.
func (p *plan) judge(e *ledger.Entry, s *Seen) {
	if e.Stage == ledger.StageUnknown || p.InFlight[e.UID] {
		return // whoever sent the Binding, or holds the pod back, settles it
	}
	switch {
	case s == nil:
		p.suspect(e, Orphan, confirmAfter, "the pod is gone and held "+describe(&e.Holding))
	case s.Node == "" && e.Stage == ledger.StageAssumed:
		p.suspect(e, Expired, assumedLimit, "the pod is not bound and has held "+describe(&e.Holding)+" for more than "+assumedLimit.String())
	case s.Node == "":
		// The store is behind: a pod that was bound is never unbound.
	case !s.Holds:
		// Somebody took the request for GPUs away after the bind. The containers run on what they were given.
	default:
		p.compare(e, s)
	}
}

// compare compares a holding with what its bound pod holds by its record.
func (p *plan) compare(e *ledger.Entry, s *Seen) {
	equal := agree(&e.Holding, &s.Charge)
	switch {
	case e.Stage == ledger.StageAssumed && equal:
		p.suspect(e, Unconfirmed, confirmAfter, "the pod is bound as it was reserved")
	case equal:
	case e.Stage == ledger.StageAssumed || e.Node != s.Node || len(e.Cards) == 0 || slices.Equal(e.Cards, s.Charge.Cards):
		p.repair(Repair{
			Kind: Differing, UID: e.UID, Pod: s.Pod, Node: s.Node, Revision: e.Revision,
			Detail: fmt.Sprintf("the ledger had %s of node %.64s, the pod holds %s", describe(&e.Holding), e.Node, describe(&s.Charge)),
		})
	default:
		// Told once for each holding, then remembered.
		if before := p.Before[e.UID]; before.Kind != Edited || before.Revision != e.Revision {
			p.repair(Repair{
				Kind: Edited, UID: e.UID, Pod: s.Pod, Node: s.Node, Revision: e.Revision,
				Detail: fmt.Sprintf("the pod was bound with %s and its record now means %s; what it started with stays charged", describe(&e.Holding), describe(&s.Charge)),
			})
		}
		p.after[e.UID] = Suspicion{Kind: Edited, Revision: e.Revision, Since: p.Now}
	}
}

// unheld judges a pod that holds GPUs and has nothing in the ledger.
func (p *plan) unheld(s *Seen) {
	if s.Released {
		p.suspect(&ledger.Entry{Holding: ledger.Holding{UID: s.UID, Pod: s.Pod, Node: s.Node}}, Tombstone, confirmAfter,
			"the pod lives and was taken for gone; it holds "+describe(&s.Charge))
		return
	}
	p.repair(Repair{Kind: Missing, UID: s.UID, Pod: s.Pod, Node: s.Node, Detail: "the pod holds " + describe(&s.Charge) + " and was not charged"})
}

// suspect plans the repair if the same of the same holding has been suspected for as long as after, more than 0; else it
// remembers the suspicion.
func (p *plan) suspect(e *ledger.Entry, kind Kind, after time.Duration, detail string) {
	s, known := p.Before[e.UID]
	if !known || s.Kind != kind || s.Revision != e.Revision {
		s = Suspicion{Kind: kind, Revision: e.Revision, Since: p.Now}
	}
	if p.Now.Sub(s.Since) >= after {
		p.repair(Repair{Kind: kind, UID: e.UID, Pod: e.Pod, Node: e.Node, Revision: e.Revision, Detail: detail})
		return
	}
	p.after[e.UID] = s
}

func (p *plan) repair(r Repair) { p.repairs = append(p.repairs, r) }

// agree reports whether two holdings of one pod mean the same.
func agree(a, b *ledger.Holding) bool {
	return a.Node == b.Node && a.UnknownCards == b.UnknownCards && slices.Equal(a.Cards, b.Cards) && slices.Equal(a.UnknownMIG, b.UnknownMIG)
}

// describe names what a holding holds.
func describe(h *ledger.Holding) string {
	const most = 8
	var parts []string
	for i, c := range h.Cards {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more", len(h.Cards)-i))
			break
		}
		parts = append(parts, share(&c))
	}
	if h.UnknownCards > 0 {
		parts = append(parts, fmt.Sprintf("%d unknown cards", h.UnknownCards))
	}
	for _, m := range h.UnknownMIG {
		parts = append(parts, fmt.Sprintf("%d unknown instances of %.64s", m.Count, m.Profile))
	}
	return strings.Join(parts, ", ")
}

func share(c *allocate.CardShare) string {
	switch {
	case c.MIGProfile != "":
		return fmt.Sprintf("an instance %.64s of card %d", c.MIGProfile, c.Index)
	case c.Whole():
		return fmt.Sprintf("card %d", c.Index)
	}
	return fmt.Sprintf("a share of card %d", c.Index)
}
