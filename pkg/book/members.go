package book

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// vanishGrace is how long a bound member that left the informer of living pods is kept as it was, until the informer of
// ended members has told whether it succeeded. The two watches differ by what the API server needs to serve both,
// milliseconds; a deleted pod was terminating, and did not count any more, long before.
const vanishGrace = 2 * time.Second

// KeyOf returns the PodGroup that a pod names by label; false for a pod that names none, or a native group.
func KeyOf(pod *v1.Pod) (GroupKey, bool) {
	name := pod.Labels[v1alpha1.PodGroupLabel]
	if name == "" || pod.Spec.SchedulingGroup != nil {
		return GroupKey{}, false
	}
	return GroupKey{pod.Namespace, name}, true
}

// InGroup reports whether a pod names a PodGroup of either API.
func InGroup(pod *v1.Pod) bool {
	return pod.Labels[v1alpha1.PodGroupLabel] != "" || pod.Spec.SchedulingGroup != nil
}

// NamesBoth reports whether a pod names a PodGroup of either API. Nothing can schedule it as both want.
func NamesBoth(pod *v1.Pod) bool {
	return pod.Labels[v1alpha1.PodGroupLabel] != "" && pod.Spec.SchedulingGroup != nil
}

// PodSeen brings the book in line with a pod as an informer shows it.
func (b *Book) PodSeen(pod *v1.Pod) {
	key, named := KeyOf(pod)
	if !named && pod.Labels[v1alpha1.PodGroupLabel] == "" {
		return // most pods; one whose label was taken away is told by PodUpdated
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if !named || !b.serves(pod) {
		b.drop(ledger.PodUID(pod.UID))
		return
	}
	b.see(key, pod)
}

// PodUpdated is PodSeen for a pod of which an older state is known.
func (b *Book) PodUpdated(old, pod *v1.Pod) {
	was, member := KeyOf(old)
	if is, still := KeyOf(pod); member && (old.UID != pod.UID || !still || is != was) {
		b.mu.Lock()
		b.drop(ledger.PodUID(old.UID))
		b.mu.Unlock()
	}
	b.PodSeen(pod)
}

// PodGone says that a pod left the informer of living pods.
func (b *Book) PodGone(pod *v1.Pod) {
	if _, named := KeyOf(pod); !named {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	uid := ledger.PodUID(pod.UID)
	m := b.members[uid]
	switch {
	case m == nil || m.ended():
	case m.sighting.Node != "" && !m.sighting.Terminating:
		b.vanished[uid] = b.clock.Now()
		b.wake()
	default:
		b.drop(uid)
	}
}

// EndedGone says that the object of a pod that had ended is deleted.
func (b *Book) EndedGone(pod *v1.Pod) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.drop(ledger.PodUID(pod.UID))
}

func (m *member) ended() bool { return m.sighting.Succeeded || m.sighting.Failed }

func (b *Book) serves(pod *v1.Pod) bool {
	_, ok := b.ours.Load(pod.Spec.SchedulerName)
	return ok
}

// see enters what is new of a member. The caller holds mu.
func (b *Book) see(key GroupKey, pod *v1.Pod) *member {
	uid := ledger.PodUID(pod.UID)
	m := b.members[uid]
	seen := b.sighting(pod)
	switch {
	case m == nil:
		m = &member{group: b.group(key), given: -1}
		b.members[uid], m.group.members[uid] = m, m
	case m.group.key != key:
		b.drop(uid)
		return b.see(key, pod)
	case m.ended() && !seen.Succeeded && !seen.Failed:
		return m // an older state: nothing comes back from its end
	case m.sighting.Node != "" && seen.Node == "":
		return m // an older state: nothing is unbound
	}
	delete(b.vanished, uid)
	fresh := m.pod == nil
	m.pod = pod
	if !fresh && m.sighting == seen {
		return m
	}
	m.sighting = seen
	b.place(m)
	if seen.Node != "" {
		m.plan = nil // the pod's record and the ledger have it from now on
		delete(b.coming, uid)
	}
	if fresh {
		seen = b.first(m)
	}
	b.apply(m.group, gang.MemberSeen{Sighting: seen})
	return m
}

// sighting is what the API shows of a pod. The caller holds mu.
func (b *Book) sighting(pod *v1.Pod) gang.Sighting {
	node := ledger.NodeName(pod.Spec.NodeName)
	rank, known := RankOf(pod)
	if !known {
		rank = -1
	}
	return gang.Sighting{
		UID: ledger.PodUID(pod.UID), Name: pod.Name, Rank: rank,
		Gated:       len(pod.Spec.SchedulingGates) > 0,
		Node:        node,
		Running:     pod.Status.Phase == v1.PodRunning,
		Succeeded:   pod.Status.Phase == v1.PodSucceeded,
		Failed:      pod.Status.Phase == v1.PodFailed,
		Terminating: pod.DeletionTimestamp != nil,
		NodeLost:    node != "" && b.lost[node],
	}
}

// first is what a gang is told of a member that it does not know. Whether a plan bound the pod stands in its record. Where
// somebody else keeps the status of PodGroups it cannot be told whether such a gang was whole since, so there it is not asked.
func (b *Book) first(m *member) gang.Sighting {
	seen := m.sighting
	if text := m.pod.Annotations[v1alpha1.AllocationAnnotation]; text != "" && seen.Node != "" && !b.settings.External {
		r, err := v1alpha1.ParseRecord(text)
		seen.Together = err == nil && r.Plan != ""
	}
	return seen
}

// drop takes a member out of the book. The caller holds mu.
func (b *Book) drop(uid ledger.PodUID) {
	m := b.members[uid]
	if m == nil {
		return
	}
	delete(b.vanished, uid)
	delete(b.unsettled, uid)
	delete(b.coming, uid)
	delete(b.evictions, uid)
	delete(b.members, uid)
	delete(m.group.members, uid)
	delete(m.group.followers, uid)
	b.unplace(m)
	m.group.moved = true
	b.apply(m.group, gang.MemberGone{Pod: uid})
	b.tidy(m.group)
}

// place lists the member under the node that it is bound to or planned for.
func (b *Book) place(m *member) {
	node := m.sighting.Node
	if node == "" && m.plan != nil {
		node = m.plan.Node
	}
	if m.ended() {
		node = ""
	}
	if node == m.node {
		return
	}
	b.unplace(m)
	if node == "" {
		return
	}
	at := b.placed[node]
	if at == nil {
		at = map[ledger.PodUID]*member{}
		b.placed[node] = at
	}
	m.node = node
	m.group.moved = true
	at[m.uid()] = m
}

func (b *Book) unplace(m *member) {
	if at := b.placed[m.node]; at != nil {
		delete(at, m.uid())
		if len(at) == 0 {
			delete(b.placed, m.node)
		}
	}
	m.node = ""
}
