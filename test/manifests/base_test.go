package manifests

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../../manifests"
	name      = "gpu-topology-scheduler"
	namespace = "gpu-topology-system"
)

// build runs kustomize on a folder and decodes what it prints; an unknown or doubled field fails the test.
func build(t *testing.T, folder string) []runtime.Object {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("kustomize build %s: %v", folder, err)
	}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme.Scheme, scheme.Scheme,
		json.SerializerOptions{Yaml: true, Strict: true})
	var objects []runtime.Object
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		object, _, err := decoder.Decode(text, nil, nil)
		if err != nil {
			t.Fatalf("%s: %v", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects
}

// all picks the objects of one type.
func all[T runtime.Object](objects []runtime.Object) []T {
	var picked []T
	for _, object := range objects {
		if typed, ok := object.(T); ok {
			picked = append(picked, typed)
		}
	}
	return picked
}

// one picks the only object of a type.
func one[T runtime.Object](t *testing.T, objects []runtime.Object) T {
	t.Helper()
	picked := all[T](objects)
	if len(picked) != 1 {
		t.Fatalf("%d objects of type %T, want 1", len(picked), *new(T))
	}
	return picked[0]
}

func TestEveryKustomizationBuilds(t *testing.T) {
	folders, err := filepath.Glob(filepath.Join(root, "*", "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(folders) == 0 {
		t.Fatalf("no kustomization under %s", root)
	}
	for _, file := range folders {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			if len(build(t, filepath.Dir(file))) == 0 {
				t.Error("builds nothing")
			}
		})
	}
}

func TestKustomizationNamesEveryFile(t *testing.T) {
	base := filepath.Join(root, "base")
	text, err := os.ReadFile(filepath.Join(base, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var kustomization types.Kustomization
	if err := yaml.UnmarshalStrict(text, &kustomization); err != nil {
		t.Fatal(err)
	}
	got := append([]string{"kustomization.yaml"}, kustomization.Resources...)
	for _, generator := range kustomization.ConfigMapGenerator {
		got = append(got, generator.FileSources...)
	}
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, entry := range entries {
		want = append(want, entry.Name())
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files named by kustomization.yaml (-in the folder +named):\n%s", diff)
	}
}

func TestRightsHaveNoWildcardAndNoSecret(t *testing.T) {
	objects := build(t, filepath.Join(root, "base"))
	rules := slices.Clone(one[*rbacv1.ClusterRole](t, objects).Rules)
	for _, role := range all[*rbacv1.Role](objects) {
		rules = append(rules, role.Rules...)
	}
	banned := []string{
		"*", "secrets", "serviceaccounts/token", "pods/exec", "nodes/proxy",
		"escalate", "bind", "impersonate", "deletecollection",
	}
	for _, rule := range rules {
		if len(rule.APIGroups) == 0 || len(rule.Resources) == 0 || len(rule.Verbs) == 0 {
			t.Errorf("rule %v lacks groups, resources or verbs", rule)
		}
		for _, word := range slices.Concat(rule.APIGroups, rule.Resources, rule.Verbs, rule.NonResourceURLs) {
			if slices.Contains(banned, word) {
				t.Errorf("rule %v grants %q", rule, word)
			}
		}
	}
}

func TestBindingsJoinTheAccountToKnownRoles(t *testing.T) {
	objects := build(t, filepath.Join(root, "base"))
	account := one[*corev1.ServiceAccount](t, objects)
	want := []rbacv1.Subject{{Kind: "ServiceAccount", Name: account.Name, Namespace: account.Namespace}}
	// Kubernetes' own, in kube-system, which every API server makes at its start.
	known := map[string]bool{"kube-system/extension-apiserver-authentication-reader": true}
	for _, role := range all[*rbacv1.Role](objects) {
		known[role.Namespace+"/"+role.Name] = true
	}

	clusterBinding := one[*rbacv1.ClusterRoleBinding](t, objects)
	if got := clusterBinding.RoleRef.Name; got != one[*rbacv1.ClusterRole](t, objects).Name {
		t.Errorf("ClusterRoleBinding %s names ClusterRole %s, which is not here", clusterBinding.Name, got)
	}
	if diff := cmp.Diff(want, clusterBinding.Subjects); diff != "" {
		t.Errorf("subjects of ClusterRoleBinding %s (-want +got):\n%s", clusterBinding.Name, diff)
	}
	for _, binding := range all[*rbacv1.RoleBinding](objects) {
		role := binding.Namespace + "/" + binding.RoleRef.Name
		if !known[role] {
			t.Errorf("RoleBinding %s/%s names Role %s, which is not there", binding.Namespace, binding.Name, role)
		}
		delete(known, role)
		if diff := cmp.Diff(want, binding.Subjects); diff != "" {
			t.Errorf("subjects of RoleBinding %s/%s (-want +got):\n%s", binding.Namespace, binding.Name, diff)
		}
	}
	for role := range known {
		t.Errorf("no RoleBinding grants Role %s", role)
	}
}

func TestDeploymentIsLockedDown(t *testing.T) {
	deployment := one[*appsv1.Deployment](t, build(t, filepath.Join(root, "base")))
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.InitContainers) != 0 {
		t.Fatalf("%d containers and %d init containers, want 1 and 0", len(pod.Containers), len(pod.InitContainers))
	}
	container := pod.Containers[0]
	yes, no, user := true, false, int64(65532)
	wantPod := &corev1.PodSecurityContext{
		RunAsNonRoot: &yes, RunAsUser: &user, RunAsGroup: &user,
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
	if diff := cmp.Diff(wantPod, pod.SecurityContext); diff != "" {
		t.Errorf("security context of the pod (-want +got):\n%s", diff)
	}
	wantContainer := &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
	if diff := cmp.Diff(wantContainer, container.SecurityContext); diff != "" {
		t.Errorf("security context of the container (-want +got):\n%s", diff)
	}
	if pod.HostNetwork || pod.HostPID || pod.HostIPC {
		t.Error("the pod shares a namespace of its host")
	}
	if container.Resources.Requests.Cpu().IsZero() || container.Resources.Requests.Memory().IsZero() || container.Resources.Limits.Memory().IsZero() {
		t.Errorf("resources %v lack a request for CPU or memory or a limit for memory", container.Resources)
	}
	if *deployment.Spec.Replicas != 2 || pod.PriorityClassName != "system-cluster-critical" || len(pod.TopologySpreadConstraints) == 0 {
		t.Errorf("replicas %d, priority class %q, %d spread constraints: want 2, system-cluster-critical and at least 1",
			*deployment.Spec.Replicas, pod.PriorityClassName, len(pod.TopologySpreadConstraints))
	}
}

func TestProbesAskTheServingPort(t *testing.T) {
	container := one[*appsv1.Deployment](t, build(t, filepath.Join(root, "base"))).Spec.Template.Spec.Containers[0]
	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	probes := map[string]struct {
		probe *corev1.Probe
		path  string
	}{
		"startup":   {container.StartupProbe, "/livez"},
		"liveness":  {container.LivenessProbe, "/healthz"},
		"readiness": {container.ReadinessProbe, "/readyz"},
	}
	for kind, want := range probes {
		if want.probe == nil || want.probe.HTTPGet == nil {
			t.Errorf("%s: no HTTP probe", kind)
			continue
		}
		get := want.probe.HTTPGet
		if get.Path != want.path || get.Scheme != corev1.URISchemeHTTPS || ports[get.Port.String()] != 10259 {
			t.Errorf("%s asks %s port %s path %s, want HTTPS on 10259 path %s", kind, get.Scheme, get.Port.String(), get.Path, want.path)
		}
	}
	if !slices.Contains(container.Args, "--secure-port=10259") {
		t.Errorf("args %q do not serve on 10259", container.Args)
	}
}

func TestDeploymentRunsTheShippedFile(t *testing.T) {
	objects := build(t, filepath.Join(root, "base"))
	const key = "scheduler-config.yaml"
	want, err := os.ReadFile(filepath.Join(root, "base", key))
	if err != nil {
		t.Fatal(err)
	}
	configMap := one[*corev1.ConfigMap](t, objects)
	if !bytes.Equal(want, []byte(configMap.Data[key])) || len(configMap.Data) != 1 {
		t.Errorf("ConfigMap %s does not hold exactly the file %s", configMap.Name, key)
	}
	if !strings.HasPrefix(configMap.Name, name+"-config-") {
		t.Errorf("ConfigMap %s has no hash in its name: a change would not roll the Deployment", configMap.Name)
	}
	pod := one[*appsv1.Deployment](t, objects).Spec.Template.Spec
	wantVolumes := []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: configMap.Name}},
	}}}
	if diff := cmp.Diff(wantVolumes, pod.Volumes); diff != "" {
		t.Fatalf("volumes (-want +got):\n%s", diff)
	}
	container := pod.Containers[0]
	if len(container.VolumeMounts) != 1 || !container.VolumeMounts[0].ReadOnly {
		t.Fatalf("volume mounts %v, want one, read-only", container.VolumeMounts)
	}
	if flag := "--config=" + container.VolumeMounts[0].MountPath + "/" + key; !slices.Contains(container.Args, flag) {
		t.Errorf("args %q lack %s", container.Args, flag)
	}
}

func TestSelectorsFindTheSchedulersPods(t *testing.T) {
	objects := build(t, filepath.Join(root, "base"))
	deployment := one[*appsv1.Deployment](t, objects)
	pod := deployment.Spec.Template
	selectors := map[string]*metav1.LabelSelector{
		"deployment":        deployment.Spec.Selector,
		"disruption budget": one[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector,
	}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		selectors["spread over "+constraint.TopologyKey] = constraint.LabelSelector
	}
	for who, labelSelector := range selectors {
		selector, err := metav1.LabelSelectorAsSelector(labelSelector)
		if err != nil {
			t.Fatal(err)
		}
		if selector.Empty() || !selector.Matches(labels.Set(pod.Labels)) {
			t.Errorf("selector of the %s, %q, does not pick the pods, labelled %v", who, selector, pod.Labels)
		}
	}
	if got, want := pod.Spec.ServiceAccountName, one[*corev1.ServiceAccount](t, objects).Name; got != want {
		t.Errorf("the pods run as %q, want %q", got, want)
	}
}

func TestEverythingIsInTheSchedulersNamespace(t *testing.T) {
	for _, object := range build(t, filepath.Join(root, "base")) {
		meta, ok := object.(metav1.Object)
		if !ok {
			t.Fatalf("%T has no metadata", object)
		}
		want := namespace
		switch object.(type) {
		case *corev1.Namespace, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *flowcontrolv1.FlowSchema:
			want = ""
		case *rbacv1.Role, *rbacv1.RoleBinding:
			switch meta.GetName() {
			case name + "-authentication-reader":
				want = "kube-system"
			case name + "-node-leases":
				want = "kube-node-lease"
			}
		}
		if meta.GetNamespace() != want {
			t.Errorf("%T %s is in namespace %q, want %q", object, meta.GetName(), meta.GetNamespace(), want)
		}
	}
}

// The API server queues by account: the schemas must name the one that the pods run as, and the lease's must come first.
func TestFlowSchemasAreTheSchedulers(t *testing.T) {
	objects := build(t, filepath.Join(root, "base"))
	account := one[*corev1.ServiceAccount](t, objects)
	precedence := map[string]int32{}
	for _, object := range objects {
		schema, ok := object.(*flowcontrolv1.FlowSchema)
		if !ok {
			continue
		}
		precedence[schema.Name] = schema.Spec.MatchingPrecedence
		for _, rule := range schema.Spec.Rules {
			want := []flowcontrolv1.Subject{{
				Kind:           flowcontrolv1.SubjectKindServiceAccount,
				ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: account.Namespace, Name: account.Name},
			}}
			if diff := cmp.Diff(want, rule.Subjects); diff != "" {
				t.Errorf("subjects of FlowSchema %s (-want +got):\n%s", schema.Name, diff)
			}
			if in := rule.ResourceRules[0].Namespaces; schema.Name != name && !slices.Equal(in, []string{namespace}) {
				t.Errorf("FlowSchema %s is for leases in %v, want the scheduler's namespace", schema.Name, in)
			}
		}
	}
	// That of all service accounts, which an API server makes for itself, has 9000.
	if len(precedence) != 2 || precedence[name+"-leader-election"] >= precedence[name] || precedence[name] >= 9000 {
		t.Errorf("precedence of the FlowSchemas %v: want that of the lease before that of the rest, and both before 9000", precedence)
	}
}

// What the scheduler does for gangs, and no more: the PodGroups of both APIs, evictions, and the nodes' heartbeats in
// the one namespace that holds them.
func TestRightsForGangs(t *testing.T) {
	objects := build(t, filepath.Join(root, "base"))
	granted := map[string][]string{}
	note := func(namespace string, rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					if len(rule.ResourceNames) == 0 {
						key := namespace + "/" + group + "/" + resource
						granted[key] = append(granted[key], rule.Verbs...)
					}
				}
			}
		}
	}
	note("", one[*rbacv1.ClusterRole](t, objects).Rules)
	for _, role := range all[*rbacv1.Role](objects) {
		note(role.Namespace, role.Rules)
	}
	want := map[string][]string{
		"/scheduling.x-k8s.io/podgroups":             {"get", "list", "watch", "patch"},
		"/scheduling.x-k8s.io/podgroups/status":      {"patch"},
		"/scheduling.k8s.io/podgroups":               {"list", "watch"},
		"/scheduling.k8s.io/podgroups/status":        {"patch"},
		"/scheduling.k8s.io/compositepodgroups":      {"list", "watch"},
		"//pods/eviction":                            {"create"},
		"/coordination.k8s.io/leases":                nil,
		"kube-node-lease/coordination.k8s.io/leases": {"get", "list", "watch"},
	}
	for key, verbs := range want {
		if diff := cmp.Diff(verbs, granted[key]); diff != "" {
			t.Errorf("verbs for %s (-want +granted):\n%s", key, diff)
		}
	}
}
