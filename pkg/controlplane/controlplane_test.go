package controlplane

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// startFor starts a control plane that ends with the test.
func startFor(t *testing.T, o Options) *ControlPlane {
	t.Helper()
	if o.DataDir == "" {
		o.DataDir = t.TempDir()
	}
	c, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, c) })
	return c
}

func stop(t *testing.T, c *ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*time.Minute)
	defer cancel()
	if err := c.Stop(ctx); err != nil {
		t.Errorf("Stop() = %v, want nil", err)
	}
}

func clientFor(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func createConfigMap(t *testing.T, config *rest.Config, name string) {
	t.Helper()
	_, err := clientFor(t, config).CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func configMaps(t *testing.T, config *rest.Config) []string {
	t.Helper()
	list, err := clientFor(t, config).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{}
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names
}

func createServiceAccount(t *testing.T, admin kubernetes.Interface, namespace, name string) {
	t.Helper()
	_, err := admin.CoreV1().ServiceAccounts(namespace).Create(t.Context(),
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRestart follows one directory through Stop, Start and Restart: objects
// and credentials stay valid, and what is taken is refused by name.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	c := startFor(t, Options{DataDir: dir})
	createConfigMap(t, c.RESTConfig(), "first")
	createServiceAccount(t, clientFor(t, c.RESTConfig()), "default", "reader")
	token, err := c.ServiceAccountConfig(t.Context(), "default", "reader")
	if err != nil {
		t.Fatal(err)
	}

	_, err = Start(t.Context(), Options{DataDir: dir})
	wantError(t, "Start on a directory in use", err, dir, "another control plane runs")
	stop(t, c)
	stop(t, c) // harmless
	if err := c.Err(); err != nil {
		t.Errorf("Err() after Stop = %v, want nil", err)
	}

	again := startFor(t, Options{DataDir: dir})
	if diff := cmp.Diff([]string{"first"}, configMaps(t, again.RESTConfig())); diff != "" {
		t.Errorf("objects after Start on the same directory (-want +got):\n%s", diff)
	}
	token.Host = again.URL()
	_, err = clientFor(t, token).CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if !errors.IsForbidden(err) { // known, but without rights
		t.Errorf("token of the first run: %v, want forbidden", err)
	}

	url, client := again.URL(), clientFor(t, again.RESTConfig())
	createConfigMap(t, again.RESTConfig(), "second")
	watch, err := client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range watch.ResultChan() { // ends: Restart has closed the watch
	}
	if again.URL() != url {
		t.Errorf("URL after Restart = %s, want %s", again.URL(), url)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "second", metav1.GetOptions{}); err != nil {
		t.Errorf("client of before Restart: %v", err)
	}

	fromFile, err := clientcmd.BuildConfigFromFlags("", again.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"first", "second"}, configMaps(t, fromFile)); diff != "" {
		t.Errorf("objects through the kubeconfig (-want +got):\n%s", diff)
	}
}

// TestTwoAtOnce runs two control planes in this process; a third that wants
// other gates is refused.
func TestTwoAtOnce(t *testing.T) {
	a, b := startFor(t, Options{}), startFor(t, Options{})
	createConfigMap(t, a.RESTConfig(), "of-a")
	createConfigMap(t, b.RESTConfig(), "of-b")
	if diff := cmp.Diff([]string{"of-a"}, configMaps(t, a.RESTConfig())); diff != "" {
		t.Errorf("objects of the first (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"of-b"}, configMaps(t, b.RESTConfig())); diff != "" {
		t.Errorf("objects of the second (-want +got):\n%s", diff)
	}
	_, err := Start(t.Context(), Options{DataDir: t.TempDir(), FeatureGates: map[string]bool{"GenericWorkload": true}})
	wantError(t, "Start with other gates", err, "FeatureGates", "GenericWorkload", a.opts.DataDir)

	stop(t, a)
	if diff := cmp.Diff([]string{"of-b"}, configMaps(t, b.RESTConfig())); diff != "" {
		t.Errorf("objects of the second after the first has stopped (-want +got):\n%s", diff)
	}
}

// TestEmulatedVersion runs an old version and then a new one in this process.
func TestEmulatedVersion(t *testing.T) {
	for _, tc := range []struct {
		version       string
		gates         map[string]bool
		runtime       map[string]string
		wantTaintRule bool
		wantPodGroup  bool
	}{
		{version: "1.34"},
		{
			version:       "1.37",
			gates:         map[string]bool{"GenericWorkload": true},
			runtime:       map[string]string{"scheduling.k8s.io/v1beta1": "true"},
			wantTaintRule: true, wantPodGroup: true,
		},
	} {
		t.Run(tc.version, func(t *testing.T) {
			c := startFor(t, Options{EmulatedVersion: tc.version, FeatureGates: tc.gates, RuntimeConfig: tc.runtime})
			client := clientFor(t, c.RESTConfig())
			if got := serves(t, client, "resource.k8s.io/v1", "devicetaintrules"); got != tc.wantTaintRule {
				t.Errorf("DeviceTaintRule served = %t, want %t", got, tc.wantTaintRule)
			}
			if !serves(t, client, "resource.k8s.io/v1", "resourceslices") {
				t.Error("ResourceSlice is not served")
			}
			if got := serves(t, client, "scheduling.k8s.io/v1beta1", "podgroups"); got != tc.wantPodGroup {
				t.Errorf("PodGroup served = %t, want %t", got, tc.wantPodGroup)
			}
			stop(t, c)
		})
	}
}

func serves(t *testing.T, client kubernetes.Interface, groupVersion, resource string) bool {
	t.Helper()
	list, err := client.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if errors.IsNotFound(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource {
			return true
		}
	}
	return false
}

// TestUnusualDir runs in a directory whose name no flag, URL or socket can carry as it is.
func TestUnusualDir(t *testing.T) {
	c := startFor(t, Options{DataDir: filepath.Join(t.TempDir(), "a b,c#d%20?é"+strings.Repeat("d", 120))})
	createConfigMap(t, c.RESTConfig(), "x")
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"x"}, configMaps(t, config)); diff != "" {
		t.Errorf("objects through the kubeconfig (-want +got):\n%s", diff)
	}
}

// TestDefaults reads what every test of the project relies on from one control plane.
func TestDefaults(t *testing.T) {
	c := startFor(t, Options{})
	admin := clientFor(t, c.RESTConfig())
	t.Run("RBAC", func(t *testing.T) { testRBAC(t, c, admin) })
	t.Run("binding carries annotations", func(t *testing.T) { testBinding(t, admin) })
	t.Run("port in use", func(t *testing.T) {
		_, err := Start(t.Context(), Options{DataDir: t.TempDir(), Port: c.opts.Port})
		wantError(t, "Start on a port in use", err, "address already in use", address(c.opts.Port))
	})
}

func testRBAC(t *testing.T, c *ControlPlane, admin kubernetes.Interface) {
	for _, role := range []string{"system:kube-scheduler", "system:volume-scheduler", "system:auth-delegator"} {
		if _, err := admin.RbacV1().ClusterRoles().Get(t.Context(), role, metav1.GetOptions{}); err != nil {
			t.Errorf("cluster role %s: %v", role, err)
		}
	}
	pods := func(config *rest.Config) error {
		_, err := clientFor(t, config).CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
		return err
	}
	if err := pods(rest.AnonymousClientConfig(c.RESTConfig())); !errors.IsForbidden(err) {
		t.Errorf("anonymous lists pods: %v, want forbidden", err)
	}
	forged := rest.AnonymousClientConfig(c.RESTConfig())
	forged.BearerToken = "not-a-token"
	if err := pods(forged); !errors.IsUnauthorized(err) {
		t.Errorf("forged token lists pods: %v, want unauthorized", err)
	}

	createServiceAccount(t, admin, "kube-system", "scheduler")
	account, err := c.ServiceAccountConfig(t.Context(), "kube-system", "scheduler")
	if err != nil {
		t.Fatal(err)
	}
	if err := pods(account); !errors.IsForbidden(err) {
		t.Errorf("service account without role lists pods: %v, want forbidden", err)
	}
	_, err = admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "scheduler"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "system:kube-scheduler"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "kube-system", Name: "scheduler"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "service account with role lists pods", func() error { return pods(account) })
	_, err = clientFor(t, account).CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{})
	if !errors.IsForbidden(err) {
		t.Errorf("service account lists secrets: %v, want forbidden", err)
	}
	if _, err := c.ServiceAccountConfig(t.Context(), "kube-system", "nobody"); !errors.IsNotFound(err) {
		t.Errorf("token of a missing service account: %v, want not found", err)
	}
}

// testBinding shows the one write that the scheduler's Bind relies on: node
// name and annotations of a Binding arrive together and merge.
func testBinding(t *testing.T, admin kubernetes.Interface) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	created, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(created.Spec.Taints) > 0 {
		t.Errorf("taints of a new node = %v, want none: nothing here would take them away", created.Spec.Taints)
	}
	pods := admin.CoreV1().Pods("default")
	_, err = pods.Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p1", Annotations: map[string]string{"kept": "1", "replaced": "old"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	err = pods.Bind(t.Context(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "p1", Annotations: map[string]string{"replaced": "new", "added": "2"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := pods.Get(t.Context(), "p1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("n1", got.Spec.NodeName); diff != "" {
		t.Errorf("node name (-want +got):\n%s", diff)
	}
	want := map[string]string{"kept": "1", "replaced": "new", "added": "2"}
	if diff := cmp.Diff(want, got.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// eventually repeats f until it succeeds. The limit turns a hang into a
// message; nothing is measured by it.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}

func wantError(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s: no error", what)
		return
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: error %q does not say %q", what, err, part)
		}
	}
}
