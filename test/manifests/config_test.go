package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	fwk "k8s.io/kube-scheduler/framework"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/gputopology"
)

// decode reads a configuration as the scheduler does at its start.
func decode(text []byte) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	object, gvk, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	decoded := object.(*schedulerconfig.KubeSchedulerConfiguration) //nolint:errcheck // the kind in the file decides; another one should stop the test
	decoded.APIVersion = gvk.GroupVersion().String()
	if errs := validation.ValidateKubeSchedulerConfiguration(decoded); errs != nil {
		return nil, errs
	}
	return decoded, nil
}

func shippedText(t *testing.T) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "base", "scheduler-config.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func shipped(t *testing.T) *schedulerconfig.KubeSchedulerConfiguration {
	t.Helper()
	decoded, err := decode(shippedText(t))
	if err != nil {
		t.Fatal(err)
	}
	return decoded
}

func TestConfigRefusesUnknownFields(t *testing.T) {
	const kind = "kind: GPUTopologyArgs\n"
	text := string(shippedText(t))
	if !strings.Contains(text, kind) {
		t.Fatalf("the shipped configuration has no line %q", kind)
	}
	_, err := decode([]byte(strings.Replace(text, kind, kind+"          noSuchArgument: 1\n", 1)))
	if err == nil || !strings.Contains(err.Error(), "noSuchArgument") {
		t.Errorf("decode() error = %v, want one that names noSuchArgument", err)
	}
}

// A plugin that is not enabled at a point that it implements is never called there, and nothing says so.
func TestConfigEnablesEveryPointOfThePlugin(t *testing.T) {
	profile := shipped(t).Profiles[0]
	var plugin any = &gputopology.Plugin{}
	_, preFilter := plugin.(fwk.PreFilterPlugin)
	_, filter := plugin.(fwk.FilterPlugin)
	_, postFilter := plugin.(fwk.PostFilterPlugin)
	_, preScore := plugin.(fwk.PreScorePlugin)
	_, score := plugin.(fwk.ScorePlugin)
	_, reserve := plugin.(fwk.ReservePlugin)
	_, permit := plugin.(fwk.PermitPlugin)
	_, preBind := plugin.(fwk.PreBindPlugin)
	_, bind := plugin.(fwk.BindPlugin)
	_, postBind := plugin.(fwk.PostBindPlugin)
	_, preEnqueue := plugin.(fwk.PreEnqueuePlugin)
	_, queueSort := plugin.(fwk.QueueSortPlugin)
	points := map[string]struct {
		implemented bool
		set         schedulerconfig.PluginSet
	}{
		"preEnqueue": {preEnqueue, profile.Plugins.PreEnqueue},
		"queueSort":  {queueSort, profile.Plugins.QueueSort},
		"preFilter":  {preFilter, profile.Plugins.PreFilter},
		"filter":     {filter, profile.Plugins.Filter},
		"postFilter": {postFilter, profile.Plugins.PostFilter},
		"preScore":   {preScore, profile.Plugins.PreScore},
		"score":      {score, profile.Plugins.Score},
		"reserve":    {reserve, profile.Plugins.Reserve},
		"permit":     {permit, profile.Plugins.Permit},
		"preBind":    {preBind, profile.Plugins.PreBind},
		"bind":       {bind, profile.Plugins.Bind},
		"postBind":   {postBind, profile.Plugins.PostBind},
	}
	named := func(plugins []schedulerconfig.Plugin, names ...string) bool {
		return slices.ContainsFunc(plugins, func(p schedulerconfig.Plugin) bool { return slices.Contains(names, p.Name) })
	}
	everywhere := named(profile.Plugins.MultiPoint.Enabled, gputopology.Name)
	for point, p := range points {
		explicit := named(p.set.Enabled, gputopology.Name)
		called := explicit || everywhere && !named(p.set.Disabled, gputopology.Name, "*")
		if p.implemented && !called {
			t.Errorf("%s: %s implements it and is not enabled", point, gputopology.Name)
		}
		if explicit && !p.implemented {
			t.Errorf("%s: %s is enabled and does not implement it", point, gputopology.Name)
		}
	}
}

func TestConfigBindsWithRecordFirst(t *testing.T) {
	profile := shipped(t).Profiles[0]
	want := schedulerconfig.PluginSet{
		Enabled:  []schedulerconfig.Plugin{{Name: gputopology.Name}, {Name: "DefaultBinder"}},
		Disabled: []schedulerconfig.Plugin{{Name: "*"}},
	}
	if diff := cmp.Diff(want, profile.Plugins.Bind); diff != "" {
		t.Errorf("bind (-want +got):\n%s", diff)
	}
	if profile.SchedulerName != name {
		t.Errorf("schedulerName %q, want %q", profile.SchedulerName, name)
	}
}

func TestConfigKeepsOurResourcesFromTheFitPlugin(t *testing.T) {
	args := map[string]any{}
	for _, plugin := range shipped(t).Profiles[0].PluginConfig {
		args[plugin.Name] = plugin.Args
	}
	fit, ok := args["NodeResourcesFit"].(*schedulerconfig.NodeResourcesFitArgs)
	if !ok || !slices.Contains(fit.IgnoredResourceGroups, "gputopology.io") {
		t.Errorf("NodeResourcesFit args %v do not ignore the group gputopology.io", args["NodeResourcesFit"])
	}
	if ok && fit.ScoringStrategy == nil {
		t.Error("NodeResourcesFit args lost the default scoring strategy")
	}
	if _, ok := args[gputopology.Name].(*config.GPUTopologyArgs); !ok {
		t.Errorf("%s args are of type %T, want GPUTopologyArgs", gputopology.Name, args[gputopology.Name])
	}
}

func TestLeaseIsOursAndAllowed(t *testing.T) {
	election := shipped(t).LeaderElection
	if !election.LeaderElect || election.ResourceName == "kube-scheduler" {
		t.Errorf("leader election is %t on lease %q, want true on a lease of our own", election.LeaderElect, election.ResourceName)
	}
	roles := all[*rbacv1.Role](build(t, filepath.Join(root, "base")))
	i := slices.IndexFunc(roles, func(r *rbacv1.Role) bool { return r.Namespace == election.ResourceNamespace })
	if i < 0 {
		t.Fatalf("the lease is in namespace %q, where the scheduler has no role", election.ResourceNamespace)
	}
	role := roles[i]
	for _, verb := range []string{"get", "update"} {
		if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool {
			return slices.Contains(r.Resources, "leases") && slices.Contains(r.ResourceNames, election.ResourceName) && slices.Contains(r.Verbs, verb)
		}) {
			t.Errorf("the role does not allow to %s lease %q", verb, election.ResourceName)
		}
	}
}

// TestCompatProfile: the same cards, gangs and records, with the in-tree spread and without scores of the network.
func TestCompatProfile(t *testing.T) {
	profiles := shipped(t).Profiles
	if len(profiles) != 2 || profiles[1].SchedulerName != name+"-compat" {
		t.Fatalf("%d profiles, want the second to be %s-compat", len(profiles), name)
	}
	main, compat := profiles[0], profiles[1]
	enabled := func(name string) bool {
		return slices.ContainsFunc(compat.Plugins.MultiPoint.Enabled, func(p schedulerconfig.Plugin) bool { return p.Name == name })
	}
	for plugin, want := range map[string]bool{
		gputopology.Name: true, "Coscheduling": true, "PodTopologySpread": true, "PodTopologySpreadTuned": false, "NCCLTopology": false,
	} {
		if enabled(plugin) != want {
			t.Errorf("%s is enabled: %t, want %t", plugin, !want, want)
		}
	}
	if len(compat.Plugins.MultiPoint.Disabled) > 0 || len(compat.Plugins.PlacementScore.Enabled) > 0 {
		t.Errorf("in-tree plugins are turned off: %v", compat.Plugins)
	}
	shared := map[string][2]schedulerconfig.PluginSet{
		"queueSort": {main.Plugins.QueueSort, compat.Plugins.QueueSort},
		"filter":    {main.Plugins.Filter, compat.Plugins.Filter}, "bind": {main.Plugins.Bind, compat.Plugins.Bind},
	}
	for point, sets := range shared {
		if diff := cmp.Diff(sets[0], sets[1]); diff != "" {
			t.Errorf("%s (-first +compat):\n%s", point, diff)
		}
	}
	if len(compat.Plugins.PostFilter.Enabled) != 1 || compat.Plugins.PostFilter.Enabled[0].Name != "Coscheduling" {
		t.Errorf("postFilter %v, want Coscheduling before preemption", compat.Plugins.PostFilter)
	}
	args := func(p schedulerconfig.KubeSchedulerProfile) map[string]any {
		found := map[string]any{}
		for _, c := range p.PluginConfig {
			if slices.Contains([]string{gputopology.Name, "Coscheduling", "NodeResourcesFit"}, c.Name) {
				found[c.Name] = c.Args
			}
		}
		return found
	}
	if diff := cmp.Diff(args(main), args(compat)); diff != "" || len(args(compat)) != 3 {
		t.Errorf("args (-first +compat):\n%s", diff)
	}
}
