package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

func topologySpreadDefaults() *TopologySpreadArgs {
	args := &TopologySpreadArgs{}
	SetTopologySpreadDefaults(args)
	return args
}

func TestSetTopologySpreadDefaults(t *testing.T) {
	want := &TopologySpreadArgs{DefaultingType: "System", GangAware: pointer(true), IgnoreNonGPUNodes: pointer(true), MaxConstraintSets: pointer(int32(256))}
	if diff := cmp.Diff(want, topologySpreadDefaults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	set := &TopologySpreadArgs{DefaultingType: "List", GangAware: pointer(false), IgnoreNonGPUNodes: pointer(false), MaxConstraintSets: pointer(int32(1))}
	before := set.DeepCopy()
	SetTopologySpreadDefaults(set)
	if diff := cmp.Diff(before, set); diff != "" {
		t.Errorf("what is set does not stand (-want +got):\n%s", diff)
	}
}

func TestValidateTopologySpread(t *testing.T) {
	listed := func(edit func(*v1.TopologySpreadConstraint)) func(*TopologySpreadArgs) {
		return func(a *TopologySpreadArgs) {
			c := v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "rack", WhenUnsatisfiable: v1.DoNotSchedule}
			edit(&c)
			a.DefaultingType, a.DefaultConstraints = schedulerconfig.ListDefaulting, []v1.TopologySpreadConstraint{c}
		}
	}
	tests := map[string]struct {
		change func(*TopologySpreadArgs)
		want   string // what the error names, "" for no error
	}{
		"defaults":   {func(*TopologySpreadArgs) {}, ""},
		"list":       {listed(func(*v1.TopologySpreadConstraint) {}), ""},
		"empty list": {func(a *TopologySpreadArgs) { a.DefaultingType = "List" }, ""},
		"system with a list": {func(a *TopologySpreadArgs) {
			listed(func(*v1.TopologySpreadConstraint) {})(a)
			a.DefaultingType = "System"
		}, "defaultingType"},
		"unknown type": {func(a *TopologySpreadArgs) { a.DefaultingType = "Some" }, `"Some"`},
		"no skew":      {listed(func(c *v1.TopologySpreadConstraint) { c.MaxSkew = 0 }), "defaultConstraints[0].maxSkew"},
		"no key":       {listed(func(c *v1.TopologySpreadConstraint) { c.TopologyKey = "" }), "defaultConstraints[0].topologyKey"},
		"a selector":   {listed(func(c *v1.TopologySpreadConstraint) { c.LabelSelector = &metav1.LabelSelector{} }), "labelSelector"},
		"the optional fields": {listed(func(c *v1.TopologySpreadConstraint) {
			c.MinDomains, c.NodeTaintsPolicy, c.MatchLabelKeys = pointer(int32(1)), pointer(v1.NodeInclusionPolicyHonor), []string{"pod-template-hash"}
		}), ""},
		"no domains":       {listed(func(c *v1.TopologySpreadConstraint) { c.MinDomains = pointer(int32(0)) }), "defaultConstraints[0].minDomains: Invalid value: 0"},
		"negative domains": {listed(func(c *v1.TopologySpreadConstraint) { c.MinDomains = pointer(int32(-1)) }), "defaultConstraints[0].minDomains: Invalid value: -1"},
		"domains of a soft one": {listed(func(c *v1.TopologySpreadConstraint) {
			c.MinDomains, c.WhenUnsatisfiable = pointer(int32(2)), v1.ScheduleAnyway
		}), "defaultConstraints[0].minDomains: Invalid value: 2"},
		"unknown affinity policy": {listed(func(c *v1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy = pointer(v1.NodeInclusionPolicy("honor"))
		}), `defaultConstraints[0].nodeAffinityPolicy: Unsupported value: "honor"`},
		"unknown taints policy": {listed(func(c *v1.TopologySpreadConstraint) {
			c.NodeTaintsPolicy = pointer(v1.NodeInclusionPolicy(""))
		}), `defaultConstraints[0].nodeTaintsPolicy: Unsupported value: ""`},
		"a label key that is none": {listed(func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"ok", "a b"} }), "defaultConstraints[0].matchLabelKeys[1]"},
		"no sets":                  {func(a *TopologySpreadArgs) { *a.MaxConstraintSets = 0 }, `maxConstraintSets: Invalid value: "0"`},
		"too many sets":            {func(a *TopologySpreadArgs) { *a.MaxConstraintSets = 10_001 }, `"10001"`},
		"nothing set":              {func(a *TopologySpreadArgs) { a.MaxConstraintSets = nil }, "maxConstraintSets"},
		"gangAware left open":      {func(a *TopologySpreadArgs) { a.GangAware = nil }, "gangAware"},
		"GPUs left open":           {func(a *TopologySpreadArgs) { a.IgnoreNonGPUNodes = nil }, "ignoreNonGPUNodes"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := topologySpreadDefaults()
			tt.change(args)
			err := ValidateTopologySpread(args)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestTopologySpreadCopyIsDeep: no part of the copy changes with the original.
func TestTopologySpreadCopyIsDeep(t *testing.T) {
	args := topologySpreadDefaults()
	args.DefaultConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, MatchLabelKeys: []string{"a"}}}
	before, ok := args.DeepCopyObject().(*TopologySpreadArgs)
	if !ok {
		t.Fatal("the copy has another type")
	}
	if diff := cmp.Diff(args, before); diff != "" {
		t.Fatalf("the copy differs (-original +copy):\n%s", diff)
	}
	*args.GangAware, *args.IgnoreNonGPUNodes, *args.MaxConstraintSets, args.DefaultConstraints[0].MatchLabelKeys[0] = false, false, 1, "b"
	want := topologySpreadDefaults()
	want.DefaultConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 1, MatchLabelKeys: []string{"a"}}}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("the copy changed with the original (-want +got):\n%s", diff)
	}
	if none := (*TopologySpreadArgs)(nil); none.DeepCopy() != nil || none.DeepCopyObject() != nil {
		t.Error("the copy of nothing is something")
	}
}

// TestTopologySpreadArgsAreDecodedStrictly: the scheduler's own decoder knows the args by the plugin's name, fills in defaults, names
// what it does not know, and prints what it read.
func TestTopologySpreadArgsAreDecodedStrictly(t *testing.T) {
	text := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: gpu-topology-scheduler
    plugins: {score: {enabled: [{name: PodTopologySpreadTuned}]}}
    pluginConfig:
      - name: PodTopologySpreadTuned
        args: `
	want := topologySpreadDefaults()
	want.DefaultingType, *want.GangAware = schedulerconfig.ListDefaulting, false
	want.DefaultConstraints = []v1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: v1.ScheduleAnyway}}
	input := text + "{kind: PodTopologySpreadTunedArgs, gangAware: false, defaultingType: List, defaultConstraints: [{maxSkew: 2, topologyKey: rack, whenUnsatisfiable: ScheduleAnyway}]}\n"
	for _, step := range []string{"read", "printed and read"} {
		cfg, err := decode(input)
		if err != nil {
			t.Fatalf("%s: %v", step, err)
		}
		found := false
		for _, p := range cfg.Profiles[0].PluginConfig {
			if args, ok := p.Args.(*TopologySpreadArgs); ok {
				found = true
				got := args.DeepCopy()
				got.TypeMeta = metav1.TypeMeta{}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", step, diff)
				}
			}
		}
		if !found {
			t.Fatalf("%s: the configuration holds no TopologySpreadArgs", step)
		}
		if input, err = encode(cfg); err != nil {
			t.Fatal(err)
		}
	}
	for _, bad := range []string{"{gangaware: false}", "{maxConstraintSets: many}", "{kind: TopologySpreadArgs}"} {
		if _, err := decode(text + bad + "\n"); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
