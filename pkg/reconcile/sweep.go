package reconcile

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
)

const (
	reasonRepaired  = "GPULedgerRepaired"
	actionReconcile = "ReconcileGPUs"
)

// sweep is one sweep under way.
type sweep struct {
	*Loop
	now  time.Time
	view View
	// open are the comparisons to make, by the place of the pod.
	open    []int32
	repairs []Done
	freed   bool
}

func newSweep(l *Loop) *sweep {
	l.memory.turn++
	now := l.Clock.Now()
	return &sweep{
		Loop: l, now: now,
		view: View{Now: now, InFlight: map[ledger.PodUID]bool{}, Before: l.before},
	}
}

// nodes reads all nodes again and returns their number.
func (s *sweep) nodes() int {
	quarantined := map[ledger.NodeName]bool{}
	met, known := 0, 0
	var repairs []Repair
	for node := range s.Observer.Nodes() {
		met++
		before, after := s.Observer.RereadSeen(node)
		repairs = s.judge(repairs, before, after)
		if after == nil {
			continue
		}
		known++
		if after.Quarantined {
			quarantined[after.Name] = true
			if !s.quarantined[after.Name] {
				repairs = append(repairs, quarantine(after))
			}
		}
	}
	repairs = s.ghosts(repairs, known)
	for name := range s.quarantined {
		if !quarantined[name] {
			s.Logger.V(2).Info("What pods hold agrees with the node's cards again", "node", name)
		}
	}
	s.quarantined = quarantined
	sortRepairs(repairs)
	for _, r := range repairs {
		s.done(r)
	}
	return met
}

// ghosts forgets the nodes that the ledger has beside so many that exist.
func (s *sweep) ghosts(repairs []Repair, known int) []Repair {
	for range s.Ledger.States() {
		known--
	}
	if known == 0 {
		return repairs
	}
	for a := range s.Ledger.States() {
		if s.Observer.Node(string(a.Name)) == nil {
			before, after := s.Observer.Reread(string(a.Name))
			repairs = s.judge(repairs, before, after)
		}
	}
	return repairs
}

func quarantine(a *ledger.NodeGPUAllocation) Repair {
	return Repair{Kind: Quarantine, Node: a.Name, Detail: a.Quarantine()}
}

// contradictions notes the nodes that repairs have put in quarantine.
func (s *sweep) contradictions(repairs []Repair) {
	for i := range repairs {
		a := s.Ledger.Node(repairs[i].Node)
		if a != nil && a.Quarantined && !s.quarantined[a.Name] {
			s.quarantined[a.Name] = true
			s.done(quarantine(a))
		}
	}
}

// judge adds what reading a node again has repaired.
func (s *sweep) judge(repairs []Repair, before, after *ledger.NodeGPUAllocation) []Repair {
	switch {
	case before == nil && after != nil:
		s.freed = true
		return append(repairs, Repair{Kind: NodeMissing, Node: after.Name, Detail: "the node has GPUs and the ledger did not know it"})
	case before != nil && after == nil:
		return append(repairs, Repair{Kind: NodeGone, Node: before.Name, Detail: "the node is gone, or has no GPUs any more, and the ledger knew it"})
	case before != nil && before.Topology != after.Topology:
		s.Logger.V(2).Info("Cards of a node read anew", "node", after.Name)
		s.freed = s.freed || after.Free&^before.Free != 0
	}
	return repairs
}

// read collects what does not agree for sure.
func (s *sweep) read() {
	m := &s.memory
	m.expect(s.Ledger.Stats().Pods())
	pods := make([]*v1.Pod, 0, batch)
	for pod := range s.Observer.GPUPods() {
		if pods = append(pods, pod); len(pods) == batch {
			m.meet(pods)
			pods = pods[:0]
		}
	}
	m.meet(pods)
	for mark := range s.Ledger.Marks() {
		if !observe.Cooling(mark.UID) {
			s.glance(&mark)
		}
	}
	for _, at := range s.due() {
		s.compare(&m.entries[at])
	}
	for i := range m.entries {
		if k := &m.entries[i]; k.seen == m.turn && k.held != m.turn {
			s.unheld(k)
		}
	}
}

// glance looks whether a holding's pod lives on its node.
func (s *sweep) glance(mark *ledger.Mark) {
	at := s.memory.entry(mark.UID, startOf(mark.UID))
	k := &s.memory.entries[at]
	k.held = s.memory.turn
	bound := k.seen == k.held && mark.Stage == ledger.StageBound
	switch {
	case bound && k.still(mark.Revision, s.Observer):
	case bound && k.pod.Spec.NodeName == string(mark.Node):
		k.waits++
		s.open = append(s.open, at)
	default:
		k.open()
		s.doubt(mark.UID, s.Observer.Living(mark.Pod, mark.UID))
	}
}

// due returns the comparisons that this sweep makes: those that were put off most often, and of these the lowest UIDs.
func (s *sweep) due() []int32 {
	m, most := s.memory.entries, s.comparisons
	if len(s.open) <= most {
		return s.open
	}
	order := func(a, b int32) int {
		x, y := &m[a], &m[b]
		if x.waits != y.waits {
			return cmp.Compare(y.waits, x.waits)
		}
		return x.before(y)
	}
	// Sorting all would take longer than comparing some.
	var last int32 = -1
	first := make([]int32, 0, 2*most)
	for _, at := range s.open {
		if last >= 0 && order(at, last) > 0 {
			continue
		}
		if first = append(first, at); len(first) == cap(first) {
			slices.SortFunc(first, order)
			first = first[:most]
			last = first[most-1]
		}
	}
	slices.SortFunc(first, order)
	return first[:min(most, len(first))]
}

// compare looks whether a bound pod holds what the ledger says.
func (s *sweep) compare(k *known) {
	e, held := s.Ledger.Entry(k.uid)
	version, lasting := s.Observer.Print(k.pod) // before what it stands for is read: a claim may change at any time
	charge, holds := s.Observer.Charge(k.pod)
	if held && holds && e.Stage == ledger.StageBound && agree(&e.Holding, &charge) {
		k.agreed(version, lasting, e.Revision)
		return
	}
	k.open()
	s.doubt(k.uid, k.pod)
}

// doubt hands a holding and its pod to the plan.
func (s *sweep) doubt(uid ledger.PodUID, pod *v1.Pod) {
	e, held := s.Ledger.Entry(uid)
	if !held || pod == nil && s.Observer.Ahead(uid) {
		return // given back meanwhile, or nothing is known of it yet
	}
	s.view.Held = append(s.view.Held, e)
	if pod != nil {
		s.view.Seen = append(s.view.Seen, s.seen(pod))
	}
	if e.Stage == ledger.StageAssumed && s.Flight.InFlight(uid) {
		s.view.InFlight[uid] = true
	}
}

// unheld looks at a bound pod that may hold GPUs, and for which the ledger has nothing.
func (s *sweep) unheld(k *known) {
	if k.still(0, s.Observer) {
		return
	}
	version, lasting := s.Observer.Print(k.pod)
	seen := s.seen(k.pod)
	if !seen.Holds {
		k.agreed(version, lasting, 0)
		return
	}
	k.open()
	if seen.Released && s.Observer.Outlived(k.pod) {
		return // the store is behind the end of the pod
	}
	s.view.Seen = append(s.view.Seen, seen)
}

func (s *sweep) seen(pod *v1.Pod) Seen {
	out := Seen{UID: ledger.PodUID(pod.UID), Pod: pod.Namespace + "/" + pod.Name, Node: ledger.NodeName(pod.Spec.NodeName)}
	if out.Node != "" {
		out.Charge, out.Holds = s.Observer.Charge(pod)
		out.Released = s.Ledger.Released(out.UID)
	}
	return out
}

// mend makes a repair, if what it was planned on is still so. It reports whether the ledger changed, or there was something
// to tell.
func (s *sweep) mend(r *Repair) bool {
	entry, held := s.Ledger.Entry(r.UID)
	if entry.Revision != r.Revision {
		return false // an event was faster
	}
	pod := s.Observer.Living(r.Pod, r.UID)
	switch r.Kind {
	case Orphan, Expired:
		return held && s.release(r, &entry, pod)
	case Edited:
		return pod != nil
	case Missing, Differing, Unconfirmed, Tombstone:
		return pod != nil && pod.Spec.NodeName != "" && s.charge(r, &entry, pod)
	case NodeMissing, NodeGone, Quarantine:
	}
	return false
}

// release ends a holding that nobody has a right to.
func (s *sweep) release(r *Repair, e *ledger.Entry, pod *v1.Pod) bool {
	if r.Kind == Orphan && pod != nil || r.Kind == Expired && (pod == nil || pod.Spec.NodeName != "") {
		return false
	}
	if e.Stage == ledger.StageAssumed && (s.Flight.InFlight(r.UID) || !s.Flight.ForgetIdle(r.UID)) {
		return false
	}
	if r.Kind == Orphan {
		s.Observer.Gone(r.Pod, r.UID, r.Node)
	}
	_, held := s.Ledger.Entry(r.UID)
	s.freed = s.freed || !held
	return !held
}

// charge has the ledger hold what a bound pod holds.
func (s *sweep) charge(r *Repair, e *ledger.Entry, pod *v1.Pod) bool {
	switch r.Kind {
	case Tombstone:
		return s.Observer.Restore(pod)
	case Missing:
		s.Observer.PodSeen(pod)
	default:
		s.Observer.Recharge(pod)
	}
	now, held := s.Ledger.Entry(r.UID)
	s.freed = s.freed || r.Kind == Differing && held
	return held && (now.Revision != e.Revision || now.Stage != e.Stage)
}

// done logs, counts and reports a repair.
func (s *sweep) done(r Repair) {
	s.repairs = append(s.repairs, Done{At: s.now, Repair: r})
	metrics.DriftRepairs.WithLabelValues(string(r.Kind)).Inc()
	s.Logger.V(2).Info("Sweep found ledger and API to differ", "kind", string(r.Kind), "pod", r.Pod, "node", r.Node, "detail", r.Detail)
	if r.Kind == Quarantine {
		return // the observer reports it when it begins
	}
	if object := s.object(&r); object != nil {
		s.Report.Report(object, reasonRepaired, actionReconcile, "kind "+string(r.Kind)+": "+subject(&r)+r.Detail)
	}
}

// object is what an event is about: the pod if it lives, else the node, nil if that is gone too.
func (s *sweep) object(r *Repair) runtime.Object {
	if r.UID != "" {
		if pod := s.Observer.Living(r.Pod, r.UID); pod != nil {
			return pod
		}
	}
	if node := s.Observer.Node(string(r.Node)); node != nil {
		return node
	}
	return nil
}

func subject(r *Repair) string {
	if r.Pod == "" {
		return ""
	}
	return "pod " + r.Pod + ": "
}
