package simulate

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// actOf is the second act with smallGang, which is whole, and another of its kind that waits.
func actOf(t *testing.T) *gangAct {
	t.Helper()
	nodes, names, c := yard(t)
	_, _, held := yard(t)
	a := &gangAct{nodes: nodes, names: names, judged: c, witness: newWitness(held), gangs: []gang{*smallGang(), *smallGang()}}
	a.gangs[1].name = "late"
	for i := range a.gangs {
		a.standings = append(a.standings, standing{gang: &a.gangs[i]})
	}
	for _, pod := range wholeGang(t, nodes) {
		a.witness.see("ADDED", pod)
	}
	for rank := range a.gangs[1].size {
		pod := unbound(t, &a.gangs[1], rank)
		pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "no room"}}
		a.witness.see("ADDED", pod)
	}
	return a
}

func TestGangActSettles(t *testing.T) {
	set := func(name string, change func(*v1.Pod)) func(*gangAct) {
		return func(a *gangAct) {
			pod := a.witness.pods[name].DeepCopy()
			change(pod)
			a.witness.see("MODIFIED", pod)
		}
	}
	tests := map[string]struct {
		change func(*gangAct)
		want   bool
	}{
		"as it must be":              {func(*gangAct) {}, true},
		"one does not run yet":       {set("g-2", func(p *v1.Pod) { p.Status.Phase = v1.PodPending }), false},
		"one of the others is bound": {set("late-1", func(p *v1.Pod) { p.Spec.NodeName = "v100-32g-0" }), false},
		"one does not say why":       {set("late-1", func(p *v1.Pod) { p.Status.Conditions = nil }), false},
		"one has ended":              {set("g-0", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }), false},
		"one was not seen":           {func(a *gangAct) { delete(a.witness.pods, "late-3") }, false},
	}
	for name, tc := range tests {
		a := actOf(t)
		tc.change(a)
		if got := a.settled(1, 0); got != tc.want {
			t.Errorf("%s: settled = %t, want %t", name, got, tc.want)
		}
	}
	const want = "A g: 4 of 4 bound, 0 ended; B late: 0 of 4 bound, 0 ended"
	if got := actOf(t).progress(); got != want {
		t.Errorf("progress = %q, want %q", got, want)
	}
}

func TestGangActJudgesEachGangOnce(t *testing.T) {
	a := actOf(t)
	for range 2 {
		if err := a.judge(); err != nil {
			t.Fatal(err)
		}
	}
	if a.placed != 4 || a.standings[0].want != phaseRunning || len(a.standings[0].seats) != 4 || a.standings[1].want != phaseWaiting {
		t.Errorf("judged %d pods, standings %+v", a.placed, a.standings)
	}
	for _, pod := range a.witness.of(&a.gangs[0]) {
		later := pod.DeepCopy()
		later.Status.Phase = v1.PodSucceeded
		a.witness.see("MODIFIED", later)
	}
	if err := a.judge(); err != nil || a.standings[0].want != phaseFinished || a.placed != 4 {
		t.Errorf("after its end: %v, phase %s, judged %d pods", err, a.standings[0].want, a.placed)
	}
}

func TestGangActFaults(t *testing.T) {
	a := actOf(t)
	part := boundMember(t, &a.gangs[1], 1, a.nodes[1], quads[1], nil)
	a.witness.see("MODIFIED", part)
	err := a.judge()
	for _, want := range []string{"pod late-1 on node v100-32g-1: card 4: is sold twice, pod g-3 has it", "gang late: 1 of 4 pods are bound"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

// groupsOf makes the act's PodGroups, which say what the gangs' statuses should.
func groupsOf(t *testing.T, a *gangAct, reason string) *fake.FakeDynamicClient {
	t.Helper()
	ran, late := a.gangs[0].group(), a.gangs[1].group()
	ran.Object["status"] = map[string]any{"phase": phaseRunning, "running": int64(4)}
	ran.SetAnnotations(map[string]string{v1alpha1.LayoutAnnotation: yardLayout})
	late.Object["status"] = map[string]any{"phase": phaseWaiting}
	late.SetAnnotations(map[string]string{v1alpha1.WaitingReasonAnnotation: reason})
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(),
		map[schema.GroupVersionResource]string{podGroups: "PodGroupList"}, ran, late)
	a.groups = client.Resource(podGroups).Namespace(workloadNamespace)
	return client
}

func TestGangActWaitsForThePodGroups(t *testing.T) {
	const reason = "gang default/late: 0 of 4 pods can be placed; too few free GPUs: 0 of 16 are free, 16 are needed"
	a := actOf(t)
	if err := a.judge(); err != nil {
		t.Fatal(err)
	}
	client, looks := groupsOf(t, a, reason), 0
	client.PrependReactor("get", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		looks++
		return looks < 3, a.gangs[0].group(), nil // at first, without a status
	})
	if err := a.awaitGroups(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []groupState{{phase: phaseRunning, running: 4, layout: yardLayout}, {phase: phaseWaiting, reason: reason}}
	got := []groupState{a.standings[0].state, a.standings[1].state}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(groupState{})); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if looks != 4 {
		t.Errorf("looked %d times, want 4: three at the first and one at the second", looks)
	}
}

func TestGangActQuotesAPodGroupThatSaysSomethingElse(t *testing.T) {
	a := actOf(t)
	if err := a.judge(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	groupsOf(t, a, "no idea").PrependReactor("get", "podgroups", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if get, ok := action.(clienttesting.GetAction); ok && get.GetName() == "late" {
			cancel()
		}
		return false, nil, nil
	})
	err := a.awaitGroups(ctx)
	for _, want := range []string{"PodGroup late", `waiting reason "no idea"`, "0 of 4 pods can be placed", "0 of 16 are free, 16 are needed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestGangActQuotesALayoutThatSaysSomethingElse(t *testing.T) {
	a := actOf(t)
	if err := a.judge(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wrong := a.gangs[0].group()
	wrong.Object["status"] = map[string]any{"phase": phaseRunning, "running": int64(4)}
	wrong.SetAnnotations(map[string]string{v1alpha1.LayoutAnnotation: strings.Replace(yardLayout, `"members":2`, `"members":3`, 1)})
	groupsOf(t, a, "").PrependReactor("get", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		cancel()
		return true, wrong, nil
	})
	err := a.awaitGroups(ctx)
	for _, want := range []string{"PodGroup g", `\"members\":3`, "Name:leaf-0 Within:[spine spine-0] Members:2"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one with %q", err, want)
		}
	}
}

func TestGangActFaultsAGangThatIsSpread(t *testing.T) {
	a, err := newGangAct(NewScreen(&strings.Builder{}, 0), &Cluster{admin: serve(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	for rank := range a.gangs[0].size { // by the names of the nodes
		a.witness.see("ADDED", boundMember(t, &a.gangs[0], rank, a.nodes[rank/2], quads[rank%2], nil))
	}
	const want = "gang train-a: the ranks on leaf leaf-0 are not contiguous, rank 4 follows others"
	if err := a.judge(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error = %v, want one with %q", err, want)
	}
}

func TestGangActEndsOneGang(t *testing.T) {
	a := actOf(t)
	if err := a.judge(); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for i := range a.gangs {
		for _, pod := range a.witness.of(&a.gangs[i]) {
			objects = append(objects, pod)
		}
	}
	a.screen, a.cluster = NewScreen(&strings.Builder{}, 0), &Cluster{Client: kubefake.NewClientset(objects...)}
	if err := a.finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	list, err := a.cluster.Client.CoreV1().Pods(workloadNamespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[v1.PodPhase]int{}
	for i := range list.Items {
		got[list.Items[i].Status.Phase]++
	}
	if diff := cmp.Diff(map[v1.PodPhase]int{v1.PodSucceeded: 4, "": 4}, got); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	if pods, free := a.gangs[0].room(a.judged, a.names); pods != 4 || free != 16 {
		t.Errorf("room for %d pods on %d cards, want 4 on 16", pods, free)
	}
	a.standings = a.standings[1:]
	if err := a.finish(t.Context()); err == nil {
		t.Error("a gang that waits was ended")
	}
}

func TestGangActMakesItsObjects(t *testing.T) {
	a, err := newGangAct(NewScreen(&strings.Builder{}, 0), &Cluster{admin: serve(t, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if len(a.nodes) != gangNodes || len(a.standings) != 3 || len(a.keys) != 24 || a.keys["train-c-7"] != "C" {
		t.Errorf("%d nodes, %d gangs, keys %v", len(a.nodes), len(a.standings), a.keys)
	}
	want := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": "default", "name": "train-a"}, "spec": map[string]any{"minMember": int64(8)},
	}}
	if diff := cmp.Diff(want, a.gangs[0].group()); diff != "" {
		t.Errorf("PodGroup (-want +got):\n%s", diff)
	}
}

func TestGangActCreatesItsPodGroups(t *testing.T) {
	a := actOf(t)
	client := fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{podGroups: "PodGroupList"})
	a.groups, a.created = client.Resource(podGroups).Namespace(workloadNamespace), make(chan error, 1)
	a.begin(t.Context())
	if err := <-a.created; err != nil {
		t.Fatal(err)
	}
	for i := range a.gangs {
		got, err := a.groups.Get(t.Context(), a.gangs[i].name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(a.gangs[i].group(), got); diff != "" {
			t.Errorf("PodGroup (-want +got):\n%s", diff)
		}
	}
	a.begin(t.Context()) // they exist
	if err := a.create(t.Context()); err == nil || !strings.Contains(err.Error(), "create PodGroup g") {
		t.Errorf("error = %v, want one that names the PodGroup", err)
	}
}
