package integration

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

const namespace = "team"

// cluster is a control plane with nothing running on it.
type cluster struct {
	config *rest.Config
	client kubernetes.Interface
	// kubeconfig is the cluster-admin kubeconfig.
	kubeconfig string
	dir        string
}

// startCluster runs a control plane until the test ends.
func startCluster(t *testing.T, change ...func(*process.ControlPlaneConfig)) *cluster {
	t.Helper()
	dir := t.TempDir()
	config := process.ControlPlaneConfig{
		Binary:  checkout.Binary(t, "local-control-plane"),
		DataDir: filepath.Join(dir, "control-plane"),
		LogFile: filepath.Join(dir, "control-plane.log"),
	}
	for _, c := range change {
		c(&config)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cp, err := process.StartControlPlane(ctx, config)
	if err != nil {
		t.Fatalf("start the control plane: %v", err)
	}
	t.Cleanup(func() {
		stopping, stopped := context.WithTimeout(context.Background(), patience)
		defer stopped()
		if err := cp.Stop(stopping); err != nil {
			t.Errorf("stop the control plane: %v", err)
		}
	})
	rc, err := clientcmd.BuildConfigFromFlags("", cp.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	rc.QPS, rc.Burst = -1, 0
	c := &cluster{config: rc, client: kubernetes.NewForConfigOrDie(rc), kubeconfig: cp.Kubeconfig, dir: dir}
	_, err = c.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c *cluster) createNodes(t *testing.T, nodes ...*v1.Node) {
	t.Helper()
	for _, n := range nodes {
		if _, err := c.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create node %s: %v", n.Name, err)
		}
	}
}

func (c *cluster) createPods(t *testing.T, pods ...*v1.Pod) {
	t.Helper()
	for _, p := range pods {
		if _, err := c.client.CoreV1().Pods(p.Namespace).Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create pod %s: %v", p.Name, err)
		}
	}
}

// deletePods removes pods at once, as a kubelet that has stopped them does.
func (c *cluster) deletePods(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		for _, grace := range []int64{1, 0} { // with 0 alone it would be a forced delete, after which cards cool down
			err := c.client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatalf("delete pod %s: %v", name, err)
			}
		}
	}
}

// finish gives a pod a terminal phase.
func (c *cluster) finish(t *testing.T, name string, phase v1.PodPhase) {
	t.Helper()
	pod := c.pod(t, name)
	pod.Status.Phase = phase
	if _, err := c.client.CoreV1().Pods(namespace).UpdateStatus(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatalf("set phase of pod %s: %v", name, err)
	}
}

func (c *cluster) pod(t *testing.T, name string) *v1.Pod {
	t.Helper()
	pod, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatalf("read pod %s: %v", name, err)
	}
	return pod
}

func (c *cluster) pods(ctx context.Context) ([]v1.Pod, error) {
	list, err := c.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// waitBound waits until all named pods have a node.
func (c *cluster) waitBound(t *testing.T, names ...string) {
	t.Helper()
	eventually(t, "bound: "+strings.Join(names, " "), func(ctx context.Context) (bool, error) {
		pods, err := c.pods(ctx)
		if err != nil {
			return false, err
		}
		node := map[string]string{}
		for i := range pods {
			node[pods[i].Name] = pods[i].Spec.NodeName
		}
		for _, name := range names {
			if node[name] == "" {
				return false, fmt.Errorf("pod %s is not bound", name)
			}
		}
		return true, nil
	})
}

// waitBoundCount waits until exactly n pods of the namespace have a node.
func (c *cluster) waitBoundCount(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods bound", n), func(ctx context.Context) (bool, error) {
		pods, err := c.pods(ctx)
		if err != nil {
			return false, err
		}
		bound := 0
		for i := range pods {
			if pods[i].Spec.NodeName != "" {
				bound++
			}
		}
		if bound != n {
			return false, fmt.Errorf("%d are bound", bound)
		}
		return true, nil
	})
}

// waitRefused waits until the scheduler has said why the pod cannot be placed, and returns what it said.
func (c *cluster) waitRefused(t *testing.T, name string) string {
	t.Helper()
	var message string
	eventually(t, "refused: "+name, func(ctx context.Context) (bool, error) {
		pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		if pod.Spec.NodeName != "" {
			return false, fmt.Errorf("pod %s is bound to %s", name, pod.Spec.NodeName)
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == v1.PodScheduled && condition.Status == v1.ConditionFalse && condition.Message != "" {
				message = condition.Message
				return true, nil
			}
		}
		return false, fmt.Errorf("pod %s has no reason yet", name)
	})
	return message
}

// listen opens a loopback port for a proxy.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}
