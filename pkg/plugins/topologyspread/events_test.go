package topologyspread

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// waiting is a pod that the plugin has refused.
func waiting(options ...kit.PodOption) *v1.Pod {
	return kit.Pod("ns", "x", append([]kit.PodOption{named("x"), labelled("app", "a", "version", "1")}, options...)...)
}

func TestAfterPlacedPod(t *testing.T) {
	on, elsewhere := kit.OnNode("n1"), kit.Pod("other", "p", labelled("app", "a"), kit.OnNode("n1"))
	a, b := kit.Pod("ns", "p", labelled("app", "a"), on), kit.Pod("ns", "p", labelled("app", "b"), on)
	nominated := kit.Pod("ns", "p", labelled("app", "a"))
	nominated.Status.NominatedNodeName = "n1"
	tests := map[string]struct {
		old, new *v1.Pod
		want     fwk.QueueingHint
	}{
		"a pod that matches comes":         {nil, a, fwk.Queue},
		"another one comes":                {nil, b, fwk.QueueSkip},
		"a pod that matches goes":          {a, nil, fwk.Queue},
		"another one goes":                 {b, nil, fwk.QueueSkip},
		"a pod begins to match":            {b, a, fwk.Queue},
		"a pod ceases to match":            {a, b, fwk.Queue},
		"a pod matches as before":          {a, a.DeepCopy(), fwk.QueueSkip},
		"of another namespace":             {nil, elsewhere, fwk.QueueSkip},
		"without a node":                   {nil, kit.Pod("ns", "p", labelled("app", "a")), fwk.QueueSkip},
		"nominated, and matches":           {nil, nominated, fwk.Queue},
		"goes, and had no node to be on":   {kit.Pod("ns", "p", labelled("app", "a")), nil, fwk.QueueSkip},
		"changes in the other namespace":   {elsewhere, elsewhere, fwk.QueueSkip},
		"matches, and ends at the moment":  {a, b, fwk.Queue},
		"another one changes to the third": {b, kit.Pod("ns", "p", labelled("app", "c"), on), fwk.QueueSkip},
	}
	f := newFixture(t, options{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after any
			if tt.old != nil {
				before = tt.old
			}
			if tt.new != nil {
				after = tt.new
			}
			got, err := f.afterPlacedPod(f.logger, waiting(spreads(rackKey, 1, v1.DoNotSchedule, "a")), before, after)
			if err != nil || got != tt.want {
				t.Errorf("%v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestAfterOwnChange(t *testing.T) {
	plain := spreads(rackKey, 1, v1.DoNotSchedule, "a")
	honor := spreads(rackKey, 1, v1.DoNotSchedule, "a", policy("", v1.NodeInclusionPolicyHonor))
	keys := spreads(rackKey, 1, v1.DoNotSchedule, "a", func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"version"} })
	tolerate := func(p *v1.Pod) { p.Spec.Tolerations = []v1.Toleration{{Key: "t"}} }
	tests := map[string]struct {
		constraint, change kit.PodOption
		want               fwk.QueueingHint
	}{
		"nothing":                           {plain, func(*v1.Pod) {}, fwk.QueueSkip},
		"a label that nobody selects":       {plain, labelled("version", "2"), fwk.QueueSkip},
		"a label of matchLabelKeys":         {keys, labelled("version", "2"), fwk.Queue},
		"it does not match itself any more": {plain, labelled("app", "b"), fwk.Queue},
		"a toleration, taints ignored":      {plain, tolerate, fwk.QueueSkip},
		"a toleration, taints honored":      {honor, tolerate, fwk.Queue},
		"it is another pod":                 {honor, func(p *v1.Pod) { tolerate(p); p.UID = "other" }, fwk.QueueSkip},
	}
	f := newFixture(t, options{})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := waiting(tt.constraint)
			after := before.DeepCopy()
			tt.change(after)
			got, err := f.afterOwnChange(f.logger, before, before, after)
			if err != nil || got != tt.want {
				t.Errorf("%v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

func TestAfterNodeChange(t *testing.T) {
	with, without := node("n1", rackKey, "r1", "disk", "hdd"), node("n1", "disk", "hdd")
	edit := func(n *v1.Node, f func(*v1.Node)) *v1.Node {
		n = n.DeepCopy()
		f(n)
		return n
	}
	moved := edit(with, func(n *v1.Node) { n.Labels[rackKey] = "r2" })
	ssd := edit(with, func(n *v1.Node) { n.Labels["disk"] = "ssd" })
	tainted := edit(with, func(n *v1.Node) { n.Spec.Taints = []v1.Taint{{Key: "t", Effect: v1.TaintEffectNoSchedule}} })
	cards := edit(with, func(n *v1.Node) { n.Status.Allocatable = v1.ResourceList{wholeCards: resource.MustParse("8")} })
	needsSSD := func(p *v1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }
	plain := spreads(rackKey, 1, v1.DoNotSchedule, "a")
	ignoring := spreads(rackKey, 1, v1.DoNotSchedule, "a", policy(v1.NodeInclusionPolicyIgnore, ""))
	tests := map[string]struct {
		pod      *v1.Pod
		old, new *v1.Node
		want     fwk.QueueingHint
	}{
		"a node with the key comes":            {waiting(plain), nil, with, fwk.Queue},
		"a node without it comes":              {waiting(plain), nil, without, fwk.QueueSkip},
		"a node with the key goes":             {waiting(plain), with, nil, fwk.Queue},
		"a node without it goes":               {waiting(plain), without, nil, fwk.QueueSkip},
		"a node gets the key":                  {waiting(plain), without, with, fwk.Queue},
		"a node loses the key":                 {waiting(plain), with, without, fwk.Queue},
		"a node moves":                         {waiting(plain), with, moved, fwk.Queue},
		"a node without the key changes":       {waiting(plain), without, edit(without, func(n *v1.Node) { n.Labels["disk"] = "ssd" }), fwk.QueueSkip},
		"a heartbeat":                          {waiting(plain), with, with.DeepCopy(), fwk.QueueSkip},
		"a taint":                              {waiting(plain), with, tainted, fwk.Queue},
		"another label":                        {waiting(plain), with, ssd, fwk.QueueSkip},
		"another label that affinity looks at": {waiting(plain, needsSSD), with, ssd, fwk.Queue},
		"the same, affinity ignored":           {waiting(ignoring, needsSSD), with, ssd, fwk.QueueSkip},
		"another label, for a gang":            {waiting(plain, labelled(groupLabel, "g")), with, ssd, fwk.Queue},
		"cards, for a GPU pod":                 {waiting(plain, kit.GPUs(1)), with, cards, fwk.Queue},
		"cards, for another":                   {waiting(plain), with, cards, fwk.QueueSkip},
	}
	f := newFixture(t, options{fabric: true})
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after any
			if tt.old != nil {
				before = tt.old
			}
			if tt.new != nil {
				after = tt.new
			}
			got, err := f.afterNodeChange(f.logger, tt.pod, before, after)
			if err != nil || got != tt.want {
				t.Errorf("%v, %v, want %v", got, err, tt.want)
			}
		})
	}
}

// TestHintsOfBrokenInput: what cannot be read wakes the pod, so that its next cycle says why.
func TestHintsOfBrokenInput(t *testing.T) {
	f := newFixture(t, options{})
	broken := waiting(spreads(rackKey, 1, v1.DoNotSchedule, "a", func(c *v1.TopologySpreadConstraint) {
		c.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Odd"}}}
	}))
	fine := waiting(spreads(rackKey, 1, v1.DoNotSchedule, "a"))
	events, err := f.EventsToRegister(f.ctx)
	if err != nil || len(events) != 3 {
		t.Fatalf("%d events, %v", len(events), err)
	}
	objects := map[fwk.EventResource]any{fwk.AssignedPod: kit.Pod("ns", "p"), fwk.TargetPod: broken, fwk.Node: node("n1", rackKey, "r1")}
	for _, e := range events {
		if hint, err := e.QueueingHintFn(f.logger, fine, "text", "text"); hint != fwk.Queue || err == nil {
			t.Errorf("%v of a text: %v, %v", e.Event, hint, err)
		}
		o := objects[e.Event.Resource]
		if hint, err := e.QueueingHintFn(f.logger, broken, o, o); hint != fwk.Queue || err == nil {
			t.Errorf("%v for a pod that cannot be read: %v, %v", e.Event, hint, err)
		}
	}
	if got := events[2].Event.ActionType & fwk.UpdateNodeAllocatable; got == 0 {
		t.Error("with ignoreNonGPUNodes, cards that come are no event")
	}
	without := newFixture(t, options{args: func(a *config.TopologySpreadArgs) { *a.IgnoreNonGPUNodes = false }})
	events, err = without.EventsToRegister(f.ctx)
	if err != nil || events[2].Event.ActionType&fwk.UpdateNodeAllocatable != 0 {
		t.Errorf("without it, they are: %v, %v", events, err)
	}
}
