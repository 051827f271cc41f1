package simulate

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/manifests"
	_ "github.com/gputopology/gpu-topology-scheduler/pkg/apis/config" // makes our args known to the decoder
)

func TestShippedObjects(t *testing.T) {
	base, err := manifests.Base()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := shippedObjects(base)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, strings.Trim(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName(), "/"))
	}
	want := []string{
		"Namespace /gpu-topology-system",
		"ServiceAccount gpu-topology-system/gpu-topology-scheduler",
		"ClusterRole /gpu-topology-scheduler",
		"ClusterRoleBinding /gpu-topology-scheduler",
		"Role gpu-topology-system/gpu-topology-scheduler",
		"Role kube-node-lease/gpu-topology-scheduler-node-leases",
		"RoleBinding gpu-topology-system/gpu-topology-scheduler",
		"RoleBinding kube-node-lease/gpu-topology-scheduler-node-leases",
		"RoleBinding kube-system/gpu-topology-scheduler-authentication-reader",
		"FlowSchema /gpu-topology-scheduler",
		"FlowSchema /gpu-topology-scheduler-leader-election",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
}

func TestShippedObjectsErrors(t *testing.T) {
	const list = "resources: [a.yaml]"
	tests := map[string]struct {
		files map[string]string
		want  string
	}{
		"no kustomization":        {nil, "kustomization.yaml"},
		"nothing listed":          {map[string]string{"kustomization.yaml": "resources: []"}, "lists no resources"},
		"kustomization is a list": {map[string]string{"kustomization.yaml": "- a"}, "kustomization.yaml"},
		"file is missing":         {map[string]string{"kustomization.yaml": list}, "a.yaml"},
		"not YAML":                {map[string]string{"kustomization.yaml": list, "a.yaml": "{"}, "a.yaml"},
		"no kind":                 {map[string]string{"kustomization.yaml": list, "a.yaml": "apiVersion: v1\nmetadata: {name: x}"}, "object 0 has no apiVersion, kind or name"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			files := fstest.MapFS{}
			for file, text := range tc.files {
				files[file] = &fstest.MapFile{Data: []byte(text)}
			}
			if _, err := shippedObjects(files); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v, want one with %q", err, tc.want)
			}
		})
	}
}

// sampleConfig is a configuration of the kind that ships.
const sampleConfig = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: gpu-topology-scheduler}
clientConnection: {qps: 1000, burst: 2000}
profiles:
  - schedulerName: gpu-topology-scheduler
    plugins:
      multiPoint: {enabled: [{name: GPUTopology, weight: 10}, {name: NCCLTopology, weight: 5}], disabled: [{name: TopologyPlacementGenerator}]}
      placementScore: {enabled: [{name: NCCLTopology, weight: 1000}]}
      bind: {enabled: [{name: GPUTopology}, {name: DefaultBinder}], disabled: [{name: "*"}]}
    pluginConfig:
      - {name: NCCLTopology, args: {kind: NCCLTopologyArgs}}
      - {name: GPUTopology, args: {kind: GPUTopologyArgs}}
      - {name: NodeResourcesFit, args: {kind: NodeResourcesFitArgs, ignoredResourceGroups: [gputopology.io]}}
`

func TestDeriveConfig(t *testing.T) {
	tests := map[string]struct {
		changes []change
		want    string
	}{
		"none": {nil, sampleConfig},
		"kubeconfig": {[]change{withKubeconfig("/tmp/k")}, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: gpu-topology-scheduler}
clientConnection: {qps: 1000, burst: 2000, kubeconfig: /tmp/k}
profiles:
  - schedulerName: gpu-topology-scheduler
    plugins:
      multiPoint: {enabled: [{name: GPUTopology, weight: 10}, {name: NCCLTopology, weight: 5}], disabled: [{name: TopologyPlacementGenerator}]}
      placementScore: {enabled: [{name: NCCLTopology, weight: 1000}]}
      bind: {enabled: [{name: GPUTopology}, {name: DefaultBinder}], disabled: [{name: "*"}]}
    pluginConfig:
      - {name: NCCLTopology, args: {kind: NCCLTopologyArgs}}
      - {name: GPUTopology, args: {kind: GPUTopologyArgs}}
      - {name: NodeResourcesFit, args: {kind: NodeResourcesFitArgs, ignoredResourceGroups: [gputopology.io]}}
`},
		"without fabric": {[]change{WithoutFabric}, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: gpu-topology-scheduler}
clientConnection: {qps: 1000, burst: 2000}
profiles:
  - schedulerName: gpu-topology-scheduler
    plugins:
      multiPoint: {enabled: [{name: GPUTopology, weight: 10}], disabled: []}
      placementScore: {enabled: []}
      bind: {enabled: [{name: GPUTopology}, {name: DefaultBinder}], disabled: [{name: "*"}]}
    pluginConfig:
      - {name: GPUTopology, args: {kind: GPUTopologyArgs}}
      - {name: NodeResourcesFit, args: {kind: NodeResourcesFitArgs, ignoredResourceGroups: [gputopology.io]}}
`},
		"without plugins": {[]change{WithoutPlugins}, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceName: gpu-topology-scheduler}
clientConnection: {qps: 1000, burst: 2000}
profiles:
  - schedulerName: gpu-topology-scheduler
    pluginConfig:
      - {name: NodeResourcesFit, args: {kind: NodeResourcesFitArgs, ignoredResourceGroups: [gputopology.io]}}
`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := DeriveConfig([]byte(sampleConfig), tc.changes...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parseYAML(t, tc.want), parseYAML(t, string(got))); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDeriveConfigErrors(t *testing.T) {
	for name, shipped := range map[string]string{
		"no profiles":          "kind: KubeSchedulerConfiguration",
		"profiles is a map":    "profiles: {a: b}",
		"a profile is a text":  "profiles: [a]",
		"pluginConfig is text": "profiles: [{pluginConfig: a}]",
		"not YAML":             "{",
	} {
		for which, without := range map[string]change{"plugins": WithoutPlugins, "fabric": WithoutFabric} {
			if got, err := DeriveConfig([]byte(shipped), without); err == nil {
				t.Errorf("%s, without %s: no error, got %s", name, which, got)
			}
		}
	}
}

// All configurations must be what the scheduler's strict decoder and validation accept.
func TestDerivedConfigsAreValid(t *testing.T) {
	base, err := manifests.Base()
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := fs.ReadFile(base, manifests.SchedulerConfig)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		changes []change
		// wantPlugins are those of our own that it names.
		wantPlugins []string
	}{
		"as it ships":     {[]change{withKubeconfig("/tmp/k")}, ownPlugins},
		"without fabric":  {[]change{WithoutFabric, withKubeconfig("/tmp/k")}, []string{"Coscheduling", "GPUTopology", "GPUCapacityGate", spreadPlugin}},
		"without plugins": {[]change{WithoutPlugins, withKubeconfig("/tmp/k")}, nil},
	} {
		text, err := DeriveConfig(shipped, tc.changes...)
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := scheme.Codecs.UniversalDecoder().Decode(text, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, ok := object.(*schedulerconfig.KubeSchedulerConfiguration)
		if !ok {
			t.Errorf("%s: decoded into a %T", name, object)
			continue
		}
		if got.ClientConnection.Kubeconfig != "/tmp/k" || got.Profiles[0].SchedulerName != SchedulerName || !got.LeaderElection.LeaderElect {
			t.Errorf("%s: kubeconfig %q, profile %q, leader election %t", name, got.ClientConnection.Kubeconfig, got.Profiles[0].SchedulerName, got.LeaderElection.LeaderElect)
		}
		for _, plugin := range ownPlugins {
			if has, want := strings.Contains(string(text), plugin), slices.Contains(tc.wantPlugins, plugin); has != want {
				t.Errorf("%s: names plugin %s: %t, want %t", name, plugin, has, want)
			}
		}
	}
}

func parseYAML(t *testing.T, text string) map[string]any {
	t.Helper()
	parsed := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &parsed); err != nil {
		t.Fatal(err)
	}
	return parsed
}
