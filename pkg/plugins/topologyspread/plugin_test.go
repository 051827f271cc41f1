package topologyspread

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestProfilesShareTheCounts: two instances of one factory read a node once, and the larger limit holds.
func TestProfilesShareTheCounts(t *testing.T) {
	f := newFixture(t, options{})
	infos := f.holds(t, racks(2, 2))
	factory := New(engine.New(engine.Options{}))
	var built []*Plugin
	for _, limit := range []int32{1, 3} {
		args := f.args.DeepCopy()
		*args.MaxConstraintSets = limit
		p, err := factory(f.ctx, args, f.handle)
		if err != nil {
			t.Fatal(err)
		}
		built = append(built, p.(*Plugin)) //nolint:errcheck // the factory makes nothing else
	}
	pod := kit.Pod("ns", "x", labelled("app", "a"), spreads(rackKey, 1, v1.DoNotSchedule, "a"))
	for _, p := range built {
		for _, namespace := range []string{"a", "b", "c"} {
			pod.Namespace = namespace
			if _, status := p.PreFilter(f.ctx, framework.NewCycleState(), pod, infos); !status.IsSuccess() {
				t.Fatal(status)
			}
		}
	}
	if got := built[0].cache.Stats(); built[0].cache != built[1].cache || got.Sets != 3 || got.Reads != 12 {
		t.Errorf("%+v, want 3 sets and 12 reads in one cache", got)
	}
}

func TestNewRefuses(t *testing.T) {
	f := newFixture(t, options{})
	bad := f.args.DeepCopy()
	*bad.MaxConstraintSets = 0
	for name, tt := range map[string]struct {
		args runtime.Object
		want string
	}{
		"another's args": {&schedconfig.PodTopologySpreadArgs{}, "want PodTopologySpreadTunedArgs"},
		"a bad value":    {bad, "maxConstraintSets"},
	} {
		if _, err := New(engine.New(engine.Options{}))(f.ctx, tt.args, f.handle); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
	if p, err := New(engine.New(engine.Options{}))(f.ctx, nil, f.handle); err != nil || p.Name() != Name {
		t.Errorf("without args: %v, %v", p, err)
	}
}

func TestSignPod(t *testing.T) {
	service := &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web"}, Spec: v1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	listed := func(a *config.TopologySpreadArgs) { a.DefaultingType = schedconfig.ListDefaulting }
	system, list := newFixture(t, options{objects: []runtime.Object{service}}), newFixture(t, options{args: listed})
	plain, spread, web := kit.Pod("ns", "x"), kit.Pod("ns", "x", spreads(rackKey, 1, v1.ScheduleAnyway, "a")), kit.Pod("ns", "x")
	web.Labels = map[string]string{"app": "web"}
	elsewhere := kit.Pod("other", "x")
	elsewhere.Labels = web.Labels
	for name, tt := range map[string]struct {
		f    *fixture
		pod  *v1.Pod
		want bool
	}{
		"plain":                         {list, plain, true},
		"constraints":                   {list, spread, false},
		"no defaults, of a Service":     {list, web, true},
		"defaults, of nothing":          {system, plain, true},
		"defaults, of a Service":        {system, web, false},
		"defaults, another namespace's": {system, elsewhere, true},
		"own and default":               {system, spread, false},
	} {
		fragments, status := tt.f.SignPod(tt.f.ctx, tt.pod)
		if len(fragments) != 0 || status.IsSuccess() != tt.want {
			t.Errorf("%s: %v, %v, want success %t", name, fragments, status, tt.want)
		}
		if tt.want {
			for _, kind := range []v1.UnsatisfiableConstraintAction{v1.DoNotSchedule, v1.ScheduleAnyway} {
				if got, err := tt.f.constraintsOf(tt.pod, kind); len(got) > 0 || err != nil {
					t.Errorf("%s: is signed and has constraints %v, %v", name, got, err)
				}
			}
		}
	}
}

// TestSignPodByControllerReference: pods may be queued before the informer shows their controller. What that is called is enough.
func TestSignPodByControllerReference(t *testing.T) {
	system := newFixture(t, options{})
	list := newFixture(t, options{args: func(a *config.TopologySpreadArgs) { a.DefaultingType = schedconfig.ListDefaulting }})
	is := true
	for _, tt := range []struct {
		f                *fixture
		apiVersion, kind string
		controller       *bool
		want             bool
	}{
		{system, "apps/v1", "ReplicaSet", &is, false},
		{system, "apps/v1", "StatefulSet", &is, false},
		{system, "v1", "ReplicationController", &is, false},
		{system, "batch/v1", "Job", &is, true},
		{system, "example.com/v1", "ReplicaSet", &is, true},
		{system, "apps/v1", "ReplicaSet", nil, true},
		{list, "apps/v1", "ReplicaSet", &is, true},
	} {
		pod := kit.Pod("ns", "x")
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: tt.apiVersion, Kind: tt.kind, Name: "unseen", Controller: tt.controller}}
		if fragments, status := tt.f.SignPod(tt.f.ctx, pod); len(fragments) != 0 || status.IsSuccess() != tt.want {
			t.Errorf("a %s of %s, defaults %t: %v, %v, want success %t", tt.kind, tt.apiVersion, len(tt.f.defaults) > 0, fragments, status, tt.want)
		}
	}
}

// TestSignPodBeforeServicesAreKnown: as long as a Service that selects the pod may be there, the pod is not like another one.
func TestSignPodBeforeServicesAreKnown(t *testing.T) {
	f := newFixture(t, options{})
	none := f.args.DeepCopy()
	none.DefaultingType = schedconfig.ListDefaulting
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	handle := newHandle(t, f, client, factory)
	signs := func(args *config.TopologySpreadArgs) func() bool {
		p, err := New(f.engine)(f.ctx, args, handle)
		if err != nil {
			t.Fatal(err)
		}
		return func() bool {
			_, status := p.(*Plugin).SignPod(f.ctx, kit.Pod("ns", "x")) //nolint:errcheck // the factory makes nothing else
			return status.IsSuccess()
		}
	}
	system, without := signs(f.args), signs(none)
	if system() || !without() {
		t.Errorf("before the Services are known, pods are signed with the system's constraints: %t, without any: %t", system(), without())
	}
	factory.Start(f.ctx.Done())
	t.Cleanup(factory.Shutdown)
	factory.WaitForCacheSync(f.ctx.Done())
	if !system() || !without() {
		t.Errorf("after the Services are known, pods are signed with the system's constraints: %t, without any: %t", system(), without())
	}
}

// TestStateIsMissing: steps out of order are an error, not a panic and not a yes.
func TestStateIsMissing(t *testing.T) {
	f := newFixture(t, options{})
	infos := f.holds(t, racks(1, 1), placed(1, "r1n1")...)
	pod := kit.Pod("ns", "x")
	other := framework.NewCycleState()
	other.Write(filterKey, &scoreState{})
	other.Write(scoreKey, &filterState{})
	for name, state := range map[string]fwk.CycleState{"nothing": framework.NewCycleState(), "another's": other} {
		_, score := f.Score(f.ctx, state, pod, infos[0])
		for step, status := range map[string]*fwk.Status{
			"Filter": f.Filter(f.ctx, state, pod, infos[0]), "Score": score, "NormalizeScore": f.NormalizeScore(f.ctx, state, pod, nil),
			"AddPod": f.AddPod(f.ctx, state, pod, infos[0].GetPods()[0], infos[0]), "RemovePod": f.RemovePod(f.ctx, state, pod, infos[0].GetPods()[0], infos[0]),
		} {
			if status.Code() != fwk.Error {
				t.Errorf("%s with %s in the state: %v", step, name, status)
			}
		}
	}
}

// TestKeysTellApart: what Read looks at changes the key, and what it does not look at leaves it alone.
func TestKeysTellApart(t *testing.T) {
	f := newFixture(t, options{fabric: true})
	base := func(options ...kit.PodOption) *v1.Pod {
		return kit.Pod("ns", "x", append([]kit.PodOption{labelled("app", "a"), spreads(rackKey, 1, v1.DoNotSchedule, "a", policy("", v1.NodeInclusionPolicyHonor))}, options...)...)
	}
	selector := func(s map[string]string) kit.PodOption { return func(p *v1.Pod) { p.Spec.NodeSelector = s } }
	edit := func(change func(*v1.TopologySpreadConstraint)) kit.PodOption {
		return func(p *v1.Pod) { change(&p.Spec.TopologySpreadConstraints[0]) }
	}
	tolerate := func(t v1.Toleration) kit.PodOption {
		return func(p *v1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
	}
	keyOf := func(p *v1.Pod) string {
		constraints, err := f.constraintsOf(p, v1.DoNotSchedule)
		if err != nil {
			t.Fatal(err)
		}
		v := f.viewOf(f.ctx, framework.NewCycleState(), p, constraints, true, nil)
		v.cards = f.cardsOf(p)
		return string(v.key())
	}
	alike := map[string]*v1.Pod{
		"base": base(), "another name": base(func(p *v1.Pod) { p.Name = "y" }), "another skew": base(edit(func(c *v1.TopologySpreadConstraint) { c.MaxSkew = 3 })),
		"minDomains": base(edit(func(c *v1.TopologySpreadConstraint) { n := int32(4); c.MinDomains = &n })), "another label": base(labelled("x", "y")),
		"a soft constraint beside it": base(spreads(zoneKey, 1, v1.ScheduleAnyway, "a")),
	}
	for name, p := range alike {
		if keyOf(p) != keyOf(base()) {
			t.Errorf("%s: another key", name)
		}
	}
	different := map[string]*v1.Pod{
		"base": base(), "namespace": base(func(p *v1.Pod) { p.Namespace = "other" }), "key": base(edit(func(c *v1.TopologySpreadConstraint) { c.TopologyKey = zoneKey })),
		"selector": base(edit(func(c *v1.TopologySpreadConstraint) { c.LabelSelector = selects("app", "b") })),
		"nothing":  base(edit(func(c *v1.TopologySpreadConstraint) { c.LabelSelector = nil })),
		"empty":    base(edit(func(c *v1.TopologySpreadConstraint) { c.LabelSelector.MatchLabels = nil })),
		"affinity": base(edit(policy(v1.NodeInclusionPolicyIgnore, ""))), "taints": base(edit(policy("", v1.NodeInclusionPolicyIgnore))),
		"node selector": base(selector(map[string]string{"a": "b"})), "longer key": base(selector(map[string]string{"ab": ""})), "two": base(selector(map[string]string{"a": "", "b": ""})),
		"toleration": base(tolerate(v1.Toleration{Key: "a"})), "its value": base(tolerate(v1.Toleration{Value: "a"})), "second constraint": base(spreads(rackKey, 1, v1.DoNotSchedule, "a")),
		"cards": base(kit.GPUs(1)), "instances": base(kit.Resource("nvidia.com/mig-1g.10gb", 1)),
	}
	seen := map[string]string{}
	for name, p := range different {
		if other, ok := seen[keyOf(p)]; ok {
			t.Errorf("%s and %s have one key", name, other)
		}
		seen[keyOf(p)] = name
	}
}
