package topologyspread

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// group schedules some members of a native pod group, each with those before it in the snapshot. Some are taken away again before the
// next one, as when a placement fails, and in the end all are.
func (w *world) group(infos []fwk.NodeInfo) {
	w.state = groupCycle
	defer func() { w.state = single }()
	var forget []func()
	undo := func(n int) {
		for range min(n, len(forget)) {
			last := len(forget) - 1
			forget[last]()
			forget = forget[:last]
		}
	}
	for range 1 + w.r.IntN(4) {
		member := pick(w.r, w.shapes...).DeepCopy()
		name := w.name("m")
		member.Name = name
		named(name)(member)
		ofGroup("g")(member)
		w.schedule(member, infos)
		forget = append(forget, w.assumed(w.t, member, pick(w.r, infos...).Node().Name))
		if w.chance(30) {
			undo(1 + w.r.IntN(3))
		}
	}
	undo(len(forget))
}

// dryRunOfMany takes pods from several nodes and puts new ones on others. The in-tree plugin follows the two lowest domains only, so
// what it says is asked of a cycle that begins with these pods on the nodes.
func (w *world) dryRunOfMany(pod *v1.Pod, infos []fwk.NodeInfo, ours fwk.CycleState) {
	s, err := stateOf[*filterState](ours, filterKey)
	if err != nil {
		w.t.Fatal(err)
	}
	if slices.ContainsFunc(s.constraints, func(c constraint) bool { return c.selector.Empty() }) {
		return // such a selector matches what moves and counts nothing that stays, in tree as here
	}
	after := make([]fwk.NodeInfo, len(infos))
	for i, info := range infos {
		after[i] = info.Snapshot()
	}
	for range w.r.IntN(12) {
		info := pick(w.r, after...)
		if pods := info.GetPods(); len(pods) > 0 && w.chance(70) {
			victim := pick(w.r, pods...)
			if victim.GetPod().DeletionTimestamp != nil {
				continue // it is not counted, and taken away all the same
			}
			if err := info.RemovePod(w.logger, victim.GetPod()); err != nil {
				w.t.Fatal(err)
			}
			w.same("RemovePod", pod, info.Node().Name, nil, w.RemovePod(w.ctx, ours, pod, victim, info))
			continue
		}
		name := fmt.Sprint("comes", len(info.GetPods()), w.r.Uint64())
		comes := &v1.Pod{}
		comes.Namespace, comes.Name = "ns", name
		named(name)(comes)
		w.labels()(comes)
		added := w.podInfo(comes)
		info.AddPodInfo(added)
		w.same("AddPod", pod, info.Node().Name, nil, w.AddPod(w.ctx, ours, pod, added, info))
	}
	theirs := framework.NewCycleState()
	_, status := w.inTree.PreFilter(w.ctx, theirs, pod, after)
	w.same("PreFilter after a dry run of many nodes", pod, "", nil, status)
	before := w.filtered
	for _, info := range after {
		w.filter(pod, info, ours, theirs)
	}
	w.dry += w.filtered - before
}
