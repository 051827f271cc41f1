package manifests

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/yaml"
)

const (
	podGroupLabel = schedulingv1alpha1.PodGroupLabel
	gpus          = corev1.ResourceName("nvidia.com/gpu")
)

// example is what a file under manifests/examples must hold.
type example struct {
	// kinds of its objects, in their order.
	kinds []string
	// group is the PodGroup of the members: in the file, or made by the operator named in maker.
	group, maker string
	// members that must exist at once, and those that ask for 8 GPUs.
	members, gpuMembers int
}

func examples() map[string]example {
	return map[string]example{
		"job.yaml":             {kinds: []string{"PodGroup", "Job"}, group: "llama", members: 4, gpuMembers: 4},
		"pytorchjob.yaml":      {kinds: []string{"PyTorchJob"}, group: "llama", maker: "training-operator", members: 4, gpuMembers: 4},
		"mpijob.yaml":          {kinds: []string{"MPIJob"}, group: "allreduce", maker: "mpi-operator", members: 5, gpuMembers: 4},
		"trainjob.yaml":        {kinds: []string{"TrainingRuntime", "TrainJob"}, group: "llama", maker: "trainer", members: 4, gpuMembers: 4},
		"rayjob.yaml":          {kinds: []string{"RayJob"}, group: "tune", maker: "kuberay", members: 5, gpuMembers: 4},
		"raycluster.yaml":      {kinds: []string{"PodGroup", "RayCluster"}, group: "ray-tune", members: 5, gpuMembers: 4},
		"jobset.yaml":          {kinds: []string{"PodGroup", "JobSet"}, group: "pretrain", members: 9, gpuMembers: 8},
		"leaderworkerset.yaml": {kinds: []string{"PodGroup", "LeaderWorkerSet"}, group: "server-a", members: 4, gpuMembers: 4},
		"native-podgroup.yaml": {kinds: []string{"PodGroup", "Job"}, group: "llama", members: 4, gpuMembers: 4},
	}
}

// document is one object of a file.
type document struct {
	text   []byte
	fields map[string]any
}

func (d document) kind() string { return text(d.fields, "kind") }

// documents reads a file of objects. A key that stands twice fails the test.
func documents(t *testing.T, file string) []document {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "examples", file))
	if err != nil {
		t.Fatal(err)
	}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var found []document
	for {
		one, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		d := document{text: one}
		if err := yaml.UnmarshalStrict(one, &d.fields); err != nil {
			t.Fatalf("document %d: %v", len(found)+1, err)
		}
		found = append(found, d)
	}
}

// template is a pod template somewhere in an object.
type template struct {
	path string
	// count is how many pods of it exist at once.
	count int
	pod   corev1.PodTemplateSpec
}

// templates finds every pod template below a value and decodes it strictly. On the way, count is multiplied with what
// the objects around the template call replicas, parallelism or size.
func templates(t *testing.T, path string, value any, count int) []template {
	t.Helper()
	var found []template
	switch v := value.(type) {
	case []any:
		for i, item := range v {
			found = append(found, templates(t, fmt.Sprintf("%s[%d]", path, i), item, count)...)
		}
	case map[string]any:
		if spec, ok := v["spec"].(map[string]any); ok && spec["containers"] != nil {
			one := template{path: path, count: count}
			content, err := yaml.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			if err := yaml.UnmarshalStrict(content, &one.pod); err != nil {
				t.Errorf("%s is no pod template: %v", path, err)
			}
			return []template{one}
		}
		for _, key := range []string{"replicas", "parallelism", "size"} {
			if n, ok := v[key].(float64); ok {
				count *= int(n)
			}
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			found = append(found, templates(t, path+"."+key, v[key], count)...)
		}
	}
	return found
}

// allTemplates are those of a file. A TrainJob says apart from its runtime how many nodes there are.
func allTemplates(t *testing.T, docs []document) []template {
	t.Helper()
	var found []template
	for _, d := range docs {
		count := 1
		if d.kind() == "TrainingRuntime" {
			count = number(t, d.fields, "spec", "mlPolicy", "numNodes")
		}
		found = append(found, templates(t, d.kind(), d.fields, count)...)
	}
	return found
}

// field goes down an object by keys; nil where it ends early.
func field(object map[string]any, keys ...string) any {
	var value any = object
	for _, key := range keys {
		m, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = m[key]
	}
	return value
}

func text(object map[string]any, keys ...string) string {
	s, ok := field(object, keys...).(string)
	if !ok {
		return ""
	}
	return s
}

func number(t *testing.T, object map[string]any, keys ...string) int {
	t.Helper()
	n, ok := field(object, keys...).(float64)
	if !ok || n != math.Trunc(n) {
		t.Fatalf("%s is %v, want a whole number", strings.Join(keys, "."), field(object, keys...))
	}
	return int(n)
}

// known decodes the kinds whose Go types the scheduler has.
func known(t *testing.T) (*runtime.Scheme, runtime.Decoder) {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(s), schedulingv1alpha1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	return s, json.NewSerializerWithOptions(json.DefaultMetaFactory, s, s, json.SerializerOptions{Yaml: true, Strict: true})
}

func TestExamplesAreListed(t *testing.T) {
	entries, err := os.ReadDir(filepath.Join(root, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(examples())), got); diff != "" {
		t.Errorf("files under manifests/examples (-tested +there):\n%s", diff)
	}
}

// What the scheduler has no Go types for is left to its operator, except for the pod templates in it.
func TestExamplesDecodeStrictly(t *testing.T) {
	scheme, decoder := known(t)
	for file, want := range examples() {
		t.Run(file, func(t *testing.T) {
			var kinds []string
			for _, d := range documents(t, file) {
				kinds = append(kinds, d.kind())
				_, gvk, err := decoder.Decode(d.text, nil, nil)
				switch {
				case gvk == nil:
					t.Errorf("%s: %v", d.kind(), err)
				case scheme.Recognizes(*gvk) && err != nil:
					t.Errorf("%s: %v", gvk, err)
				case !scheme.Recognizes(*gvk) && (scheme.IsGroupRegistered(gvk.Group) || gvk.Version == ""):
					t.Errorf("%s is no kind of its group", gvk)
				}
				if text(d.fields, "metadata", "name") == "" || text(d.fields, "metadata", "namespace") != "" {
					t.Errorf("%s: want a name, and no namespace so that it goes where kubectl points", gvk)
				}
			}
			if diff := cmp.Diff(want.kinds, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExamplesStartWithAnExplanation(t *testing.T) {
	for file := range examples() {
		content, err := os.ReadFile(filepath.Join(root, "examples", file))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.HasPrefix(content, []byte("# ")) {
			t.Errorf("%s does not start with a comment", file)
		}
	}
}

func TestExamplePodsAreForThisScheduler(t *testing.T) {
	for file, want := range examples() {
		t.Run(file, func(t *testing.T) {
			members, gpuMembers := 0, 0
			for _, one := range allTemplates(t, documents(t, file)) {
				members += one.count
				if got := one.pod.Spec.SchedulerName; got != name {
					t.Errorf("%s: schedulerName %q, want %q", one.path, got, name)
				}
				for _, container := range one.pod.Spec.Containers {
					asked := container.Resources
					if asked.Requests.Cpu().IsZero() || asked.Requests.Memory().IsZero() {
						t.Errorf("%s: container %s requests %v, want CPU and memory", one.path, container.Name, asked.Requests)
					}
					_, requested := asked.Requests[gpus]
					limit, limited := asked.Limits[gpus]
					if requested {
						t.Errorf("%s: container %s requests GPUs; a limit alone says both", one.path, container.Name)
					}
					if limited {
						gpuMembers += one.count
						if limit.Value() != 8 {
							t.Errorf("%s: container %s has %d GPUs, want the 8 of a node", one.path, container.Name, limit.Value())
						}
					}
				}
			}
			if members != want.members || gpuMembers != want.gpuMembers {
				t.Errorf("%d members, %d of them with GPUs; want %d and %d", members, gpuMembers, want.members, want.gpuMembers)
			}
		})
	}
}

// groupsOf returns minMember of every PodGroup in a file by name, of scheduling.x-k8s.io and of Kubernetes.
func groupsOf(t *testing.T, docs []document) (labelled, native map[string]int) {
	t.Helper()
	_, decoder := known(t)
	labelled, native = map[string]int{}, map[string]int{}
	for _, d := range docs {
		if d.kind() != "PodGroup" {
			continue
		}
		object, _, err := decoder.Decode(d.text, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		switch group := object.(type) {
		case *schedulingv1alpha1.PodGroup:
			labelled[group.Name] = int(group.Spec.MinMember)
		case *schedulingv1beta1.PodGroup:
			if group.Spec.SchedulingPolicy.Gang == nil {
				t.Fatalf("PodGroup %s is no gang", group.Name)
			}
			native[group.Name] = int(group.Spec.SchedulingPolicy.Gang.MinCount)
		default:
			t.Fatalf("PodGroup of type %T", object)
		}
	}
	return labelled, native
}

func TestExamplePodsFindTheirPodGroup(t *testing.T) {
	for file, want := range examples() {
		t.Run(file, func(t *testing.T) {
			docs := documents(t, file)
			labelled, native := groupsOf(t, docs)
			members := map[string]int{}
			for _, one := range allTemplates(t, docs) {
				label, has := one.pod.Labels[podGroupLabel]
				group := one.pod.Spec.SchedulingGroup
				switch {
				case has && group != nil:
					t.Errorf("%s names two groups", one.path)
				case want.maker != "" && (has || group != nil):
					t.Errorf("%s names a group although %s does it", one.path, want.maker)
				case want.maker == "" && has && labelled[label] == 0:
					t.Errorf("%s: label names PodGroup %q, which is not in the file", one.path, label)
				case want.maker == "" && !has && (group == nil || group.PodGroupName == nil || native[*group.PodGroupName] == 0):
					t.Errorf("%s names no PodGroup of the file", one.path)
				}
				members[want.group] += one.count
			}
			if want.maker == "" {
				both := maps.Clone(labelled)
				maps.Copy(both, native)
				if diff := cmp.Diff(members, both); diff != "" {
					t.Errorf("minMember by PodGroup (-members +PodGroup):\n%s", diff)
				}
				return
			}
			if len(labelled)+len(native) > 0 {
				t.Errorf("the file has a PodGroup although %s makes it", want.maker)
			}
			if owner := docs[len(docs)-1]; text(owner.fields, "metadata", "name") != want.group {
				t.Errorf("%s %q gives its name to the PodGroup, want %q", owner.kind(), text(owner.fields, "metadata", "name"), want.group)
			}
		})
	}
}

// The operators that make a PodGroup take minMember from these fields.
func TestExampleQuorumsCanBeReached(t *testing.T) {
	policy := []string{"spec", "runPolicy", "schedulingPolicy", "minAvailable"}
	mpi := documents(t, "mpijob.yaml")[0].fields
	if got := text(mpi, "spec", "launcherCreationPolicy"); got != "WaitForWorkersReady" {
		t.Errorf("launcherCreationPolicy %q, want the one that needs minAvailable", got)
	}
	workers := number(t, mpi, "spec", "mpiReplicaSpecs", "Worker", "replicas")
	if got := number(t, mpi, policy...); got != workers {
		t.Errorf("mpijob.yaml: minAvailable %d, want the %d workers: the launcher comes only after them", got, workers)
	}
	if got, want := number(t, documents(t, "pytorchjob.yaml")[0].fields, policy...), examples()["pytorchjob.yaml"].members; got != want {
		t.Errorf("pytorchjob.yaml: minAvailable %d, want %d", got, want)
	}
	train := documents(t, "trainjob.yaml")
	jobs, ok := field(train[0].fields, "spec", "template", "spec", "replicatedJobs").([]any)
	if !ok || len(jobs) != 1 {
		t.Errorf("trainjob.yaml has %d replicated jobs, want 1: minMember counts them all", len(jobs))
	}
	if got, want := text(train[1].fields, "spec", "runtimeRef", "name"), text(train[0].fields, "metadata", "name"); got != want {
		t.Errorf("trainjob.yaml: runtimeRef %q, want %q", got, want)
	}
	if got, want := number(t, train[1].fields, "spec", "trainer", "numNodes"), number(t, train[0].fields, "spec", "mlPolicy", "numNodes"); got != want {
		t.Errorf("trainjob.yaml: %d nodes, the runtime has %d", got, want)
	}
	ray := documents(t, "rayjob.yaml")[0].fields
	if got := text(ray, "metadata", "labels", "ray.io/gang-scheduling-enabled"); got == "" {
		t.Error("rayjob.yaml lacks the label that asks KubeRay for a PodGroup")
	}
}
