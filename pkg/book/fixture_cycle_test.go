package book

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// offer is PreEnqueue, of the plugin that keeps followers out of the queue as well.
func (b *bench) offer(pod *v1.Pod) {
	_, ok := b.Enqueue(pod)
	b.follows[pod.UID] = ok && b.Follows(pod)
	if ok && !b.follows[pod.UID] {
		b.queue[pod.UID] = pod
	}
}

// cure tells every waiting pod of an event that may help it, as the queue's hints do.
func (b *bench) cure() {
	for _, o := range b.store.List() {
		if pod, ok := o.(*v1.Pod); ok && pod.Spec.NodeName == "" && b.host.waiting[pod.UID] == nil && !b.follows[pod.UID] && b.MayCure(pod) {
			b.offer(pod)
		}
	}
}

// run is the scheduler until nothing is left to do at this moment.
func (b *bench) run() {
	b.t.Helper()
	for range 10000 {
		b.step()
		if !b.permitted() && !b.next() && !b.activated() {
			return
		}
	}
	b.t.Fatalf("the scheduler does not come to rest")
}

// activated offers the pods that the book activated. One that is at Permit is remembered until it comes back, as the queue
// does with pods in flight.
func (b *bench) activated() bool {
	pods := b.host.take()
	for _, pod := range pods {
		switch now := b.current(pod); {
		case now.Spec.NodeName != "" || !b.stored(pod):
		case b.host.waiting[pod.UID] != nil:
			b.again[pod.UID] = true
		default:
			b.offer(now)
		}
	}
	return len(pods) > 0
}

// next tries the first pod of the queue.
func (b *bench) next() bool {
	if len(b.queue) == 0 {
		return false
	}
	first := slices.MinFunc(slices.Collect(maps.Values(b.queue)), func(x, y *v1.Pod) int {
		return cmp.Or(cmp.Compare(priority(y), priority(x)), b.OrderOf(x, x.CreationTimestamp.UnixNano()).Compare(b.OrderOf(y, y.CreationTimestamp.UnixNano())))
	})
	delete(b.queue, first.UID)
	switch what := b.cycle(first); what {
	case "conflict", "given back":
		b.failed[first.UID] = first // an error to the scheduler, which tries again after a while
	case "wait", "no plan":
		if !b.ungated && b.Follow(first) {
			b.offer(first)
		}
	}
	return true
}

func priority(pod *v1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// permitted carries out what was decided for pods at Permit.
func (b *bench) permitted() bool {
	b.t.Helper()
	did := false
	for _, uid := range slices.Sorted(maps.Keys(b.host.waiting)) {
		w := b.host.waiting[uid]
		switch {
		case w == nil || !w.decided:
		case w.allowed:
			delete(b.host.waiting, uid)
			b.bind(w.pod, w.node, w.planID)
			did = true
		default:
			delete(b.host.waiting, uid)
			b.unreserve(w.pod, w.planID)
			did = true
		}
	}
	return did
}

// cycle is one scheduling cycle: PreFilter, Filter, Reserve and Permit. It says what came of it in one word.
func (b *bench) cycle(pod *v1.Pod) string {
	b.t.Helper()
	for range 3 {
		a := b.Admit(pod)
		switch a.Kind {
		case gang.VerdictWait:
			return "wait"
		case gang.VerdictAlone:
			return b.goAlone(pod)
		case gang.VerdictPlanned:
			if b.refuse != nil {
				if reason := b.refuse(pod, string(a.Node)); reason != "" {
					b.Refused(pod, string(a.Node), reason)
					return "refused"
				}
			}
			return b.reserve(pod)
		case gang.VerdictPlan:
		}
		places, short := b.plan(&a)
		if short != "" {
			if b.Book.PlanFailed(a.Group, short) {
				b.GiveTurn(a.Group, priority(pod), b.everyNode())
			}
			return "no plan"
		}
		if err := b.Take(a.Group, places); err != nil {
			return "conflict"
		}
	}
	return "given back"
}

// goAlone places a pod for itself.
func (b *bench) goAlone(pod *v1.Pod) string {
	b.t.Helper()
	place, ok := b.find(pod, map[ledger.NodeName]int{}, nil)
	if !ok {
		return "full"
	}
	if b.Withheld().Bars(pod, priority(pod), b.CreatedOf(pod), place.Planned.Node) {
		b.Barred(pod)
		return "barred"
	}
	if !b.assume(pod, &place.Planned) {
		return "conflict"
	}
	if answer, _, _ := b.Reserved(pod, string(place.Planned.Node)); answer != AnswerGo {
		b.unreserve(pod, "")
		return "refused"
	}
	b.bind(pod, string(place.Planned.Node), "")
	return "bound"
}

// assume is GPUTopology's Reserve: a pod that asks for no cards holds nothing.
func (b *bench) assume(pod *v1.Pod, p *Planned) bool {
	return len(p.Choice.Cards) == 0 || b.ledger.Assume(p.Holding(pod)) == nil
}

// reserve is Reserve and Permit of a planned member.
func (b *bench) reserve(pod *v1.Pod) string {
	b.t.Helper()
	planned := b.Planned(ledger.PodUID(pod.UID))
	if planned == nil {
		return "conflict"
	}
	if !b.assume(pod, planned) {
		return "conflict"
	}
	answer, timeout, _ := b.Reserved(pod, string(planned.Node))
	switch answer {
	case AnswerGo:
		b.bind(pod, string(planned.Node), planned.ID)
		return "bound"
	case AnswerWait:
		b.host.waiting[pod.UID] = &fakeWaiting{pod: pod, node: string(planned.Node), planID: planned.ID, timeout: timeout}
		return "waits"
	case AnswerRefuse:
	}
	b.unreserve(pod, planned.ID)
	return "refused"
}

// bind is Bind and PostBind, and the informer's news of it.
func (b *bench) bind(pod *v1.Pod, node, planID string) {
	b.t.Helper()
	if err := b.host.bind(pod); err != nil {
		b.unreserve(pod, planID)
		return
	}
	if len(pod.Spec.Containers[0].Resources.Requests) > 0 && !b.ledger.Confirm(ledger.PodUID(pod.UID)) {
		b.t.Errorf("pod %s is bound without holding cards", pod.Name)
	}
	b.Bound(pod, node)
	b.change(b.current(pod), func(p *v1.Pod) { p.Spec.NodeName = node })
}

// unreserve is Unreserve of both plugins.
func (b *bench) unreserve(pod *v1.Pod, planID string) {
	if planID == "" {
		b.ledger.Forget(ledger.PodUID(pod.UID))
	} else {
		b.GiveBack(ledger.PodUID(pod.UID), planID)
	}
	b.Unreserved(pod, planID, "pod "+pod.Name+" was rolled back")
	if now := b.current(pod); b.again[pod.UID] && now.Spec.NodeName == "" && b.stored(pod) {
		b.offer(now)
	}
	delete(b.again, pod.UID)
}

// plan finds places for as many candidates as are needed, in their order, on the first nodes that have room.
func (b *bench) plan(a *Admission) ([]Place, string) {
	if b.placing != nil {
		return b.placing(a)
	}
	used := map[ledger.NodeName]int{}
	var places []Place
	for _, c := range a.Candidates {
		if len(places) == a.Need {
			break
		}
		if place, ok := b.find(c.Pod, used, a.Excluded); ok {
			place.Planned.Rank = c.Rank
			places = append(places, place)
		}
	}
	if len(places) < a.Need {
		return nil, fmt.Sprintf("gang %s: %d of %d pods can be placed", a.Group, len(places), a.Need)
	}
	return places, ""
}

// find gives the pod the first free cards of a node; used counts those that are spoken for.
func (b *bench) find(pod *v1.Pod, used map[ledger.NodeName]int, excluded map[ledger.NodeName]bool) (Place, bool) {
	asked := pod.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"]
	want := int(asked.Value())
	for node := range b.ledger.Nodes() {
		free := node.Free.Indices()
		if excluded[node.Name] || b.Lost(node.Name) || len(free)-used[node.Name] < want {
			continue
		}
		choice := allocate.Choice{}
		for _, i := range free[used[node.Name] : used[node.Name]+want] {
			card := node.Topology.Card(i)
			choice.Cards = append(choice.Cards, allocate.CardShare{
				Index: i, UUID: card.UUID, SliceMask: allocate.WholeCard, VRAMBytes: card.VRAMBytes, ComputeMilli: allocate.MilliPerCard,
			})
		}
		used[node.Name] += want
		return Place{Pod: pod, Planned: Planned{Node: node.Name, Choice: choice, Topology: node.Topology}}, true
	}
	return Place{}, false
}
