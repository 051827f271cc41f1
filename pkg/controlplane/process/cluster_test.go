package process_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
)

// binary returns bin/NAME of the repository, or skips the test. GPUTOPOLOGY_BIN
// names another directory than bin.
func binary(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("GPUTOPOLOGY_BIN")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s: run make build (%v)", path, err)
	}
	return path
}

func startControlPlane(t *testing.T, c process.ControlPlaneConfig) (*process.ControlPlane, kubernetes.Interface) {
	t.Helper()
	c.Binary = binary(t, "local-control-plane")
	c.LogFile = filepath.Join(t.TempDir(), "control-plane.log")
	if c.DataDir == "" {
		c.DataDir = t.TempDir()
	}
	p, err := process.StartControlPlane(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, p.Process) })
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return p, client
}

func stop(t *testing.T, p *process.Process) {
	t.Helper()
	if err := p.Stop(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestControlPlaneProcess runs two versions side by side, which one process
// cannot, crashes one and starts it again on its directory.
func TestControlPlaneProcess(t *testing.T) {
	dir := t.TempDir()
	old, oldClient := startControlPlane(t, process.ControlPlaneConfig{DataDir: dir, EmulatedVersion: "1.34"})
	_, client := startControlPlane(t, process.ControlPlaneConfig{
		FeatureGates:  map[string]bool{"GenericWorkload": true},
		RuntimeConfig: map[string]string{"scheduling.k8s.io/v1beta1": "true"},
		APIServerArgs: []string{"--event-ttl=10m"},
	})
	for _, tc := range []struct {
		client       kubernetes.Interface
		groupVersion string
		resource     string
		want         bool
	}{
		{oldClient, "resource.k8s.io/v1", "resourceslices", true},
		{oldClient, "resource.k8s.io/v1", "devicetaintrules", false},
		{oldClient, "scheduling.k8s.io/v1beta1", "podgroups", false},
		{client, "resource.k8s.io/v1", "devicetaintrules", true},
		{client, "scheduling.k8s.io/v1beta1", "podgroups", true},
	} {
		if got := serves(t, tc.client, tc.groupVersion, tc.resource); got != tc.want {
			t.Errorf("%s %s served = %t, want %t", tc.groupVersion, tc.resource, got, tc.want)
		}
	}

	createNode(t, oldClient, "n1")
	if err := old.Kill(); err != nil {
		t.Fatal(err)
	}
	again, oldClient := startControlPlane(t, process.ControlPlaneConfig{DataDir: dir, EmulatedVersion: "1.34"})
	if _, err := oldClient.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{}); err != nil {
		t.Errorf("node after a crash: %v", err)
	}
	stop(t, again.Process)
	if err := again.Err(); err != nil {
		t.Errorf("end after Stop = %v, want exit code 0", err)
	}
}

func serves(t *testing.T, client kubernetes.Interface, groupVersion, name string) bool {
	t.Helper()
	list, err := client.Discovery().ServerResourcesForGroupVersion(groupVersion)
	if errors.IsNotFound(err) {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == name {
			return true
		}
	}
	return false
}

// TestKWOK takes nodes and pods through the life that the demo and the
// benchmarks rely on.
func TestKWOK(t *testing.T) {
	kwok := binary(t, "kwok")
	p, client := startControlPlane(t, process.ControlPlaneConfig{})
	k, err := process.StartKWOK(t.Context(), process.KWOKConfig{
		Binary: kwok, Kubeconfig: p.Kubeconfig, LogFile: filepath.Join(t.TempDir(), "kwok.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, k) })

	const nodes = 16
	for i := range nodes {
		createNode(t, client, fmt.Sprintf("n%d", i))
	}
	eventually(t, "nodes become Ready and keep their GPUs", func() error { return nodesReady(t, client, nodes) })

	job := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "1"}
	createPod(t, client, "service", "n0")
	createPod(t, client, "worker", "n1", job)
	createPod(t, client, "unbound", "")
	eventually(t, "a bound pod runs", podIs(t, client, "service", corev1.PodRunning))
	eventually(t, "a pod of a Job completes", podIs(t, client, "worker", corev1.PodSucceeded))
	if err := podIs(t, client, "unbound", corev1.PodPending)(); err != nil {
		t.Errorf("a pod without node: %v", err)
	}
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "service", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted pod goes away", func() error {
		_, err := client.CoreV1().Pods("default").Get(t.Context(), "service", metav1.GetOptions{})
		if errors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("get: %w", err)
	})
}

func createNode(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("96"), corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods: resource.MustParse("110"), "nvidia.com/gpu": resource.MustParse("8"),
	}
	_, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Status:     corev1.NodeStatus{Capacity: has, Allocatable: has},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func nodesReady(t *testing.T, client kubernetes.Interface, want int) error {
	t.Helper()
	list, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err
	}
	ready := 0
	for i := range list.Items {
		node := &list.Items[i]
		if gpus := node.Status.Allocatable["nvidia.com/gpu"]; gpus.Value() != 8 {
			return fmt.Errorf("node %s has %s GPUs, want 8", node.Name, gpus.String())
		}
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has taints %v, want none", node.Name, node.Spec.Taints)
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				ready++
			}
		}
	}
	if ready != want {
		return fmt.Errorf("%d nodes are Ready, want %d", ready, want)
	}
	return nil
}

func createPod(t *testing.T, client kubernetes.Interface, name, node string, owners ...metav1.OwnerReference) {
	t.Helper()
	_, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners},
		Spec: corev1.PodSpec{
			NodeName:       node,
			InitContainers: []corev1.Container{{Name: "i", Image: "i"}},
			Containers:     []corev1.Container{{Name: "c", Image: "i"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func podIs(t *testing.T, client kubernetes.Interface, name string, want corev1.PodPhase) func() error {
	return func() error {
		pod, err := client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != want {
			return fmt.Errorf("pod %s is %s, want %s", name, pod.Status.Phase, want)
		}
		return nil
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
