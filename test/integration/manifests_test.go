package integration

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/manifests"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/access"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

const (
	// shippedNamespace and shippedName are what manifests/base calls the scheduler, its account, its roles and its lease.
	shippedNamespace = "gpu-topology-system"
	shippedName      = "gpu-topology-scheduler"
)

// shippedObjects reads every object of manifests/base in the order of its kustomization.
func shippedObjects(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	base, err := manifests.Base()
	if err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		text, err := fs.ReadFile(base, name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	var list struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(read(manifests.Kustomization), &list); err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range list.Resources {
		documents := yamlstream.NewYAMLReader(bufio.NewReader(bytes.NewReader(read(name))))
		for {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal(document, &o.Object); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if len(o.Object) > 0 {
				objects = append(objects, o)
			}
		}
	}
	if len(objects) == 0 {
		t.Fatal("manifests/base lists nothing")
	}
	return objects
}

// install applies manifests/base as kubectl would, and returns the credentials of its service account.
func (c *cluster) install(t *testing.T) *rest.Config {
	t.Helper()
	client, err := dynamic.NewForConfig(c.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range shippedObjects(t) {
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		var target dynamic.ResourceInterface = client.Resource(resource)
		if o.GetNamespace() != "" {
			target = client.Resource(resource).Namespace(o.GetNamespace())
		}
		// kube-system is made by the API server soon after its start.
		eventually(t, "apply "+o.GetKind()+" "+o.GetName(), func(ctx context.Context) (bool, error) {
			_, err := target.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: "test"})
			if err != nil && !apierrors.IsNotFound(err) {
				t.Fatalf("apply %s %s: %v", o.GetKind(), o.GetName(), err)
			}
			return err == nil, err
		})
	}
	config, err := access.ServiceAccount(t.Context(), c.config, shippedNamespace, shippedName, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// TestShippedManifests runs the binary as it ships: its service account with nothing but its roles, its configuration
// with leader election.
func TestShippedManifests(t *testing.T) {
	c := startCluster(t)
	account := c.install(t)
	cpu := kit.Node("cpu", kit.N1("cpu"))
	cpu.Annotations = nil
	delete(cpu.Status.Allocatable, "nvidia.com/gpu")
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")), cpu)
	c.startBinary(t, account, nil)
	c.createPods(t, kit.Pod(namespace, "gpu", kit.GPUs(4)), kit.Pod(namespace, "share", kit.VRAM(1000, 1)), kit.Pod(namespace, "cpu"))
	c.waitBound(t, "gpu", "share", "cpu")
	if got := c.pod(t, "gpu"); got.Spec.NodeName != "n1" || c.cardsOf(t, "gpu") == "[]" {
		t.Errorf("pod gpu is on node %s with record %q", got.Spec.NodeName, got.Annotations[v1alpha1.AllocationAnnotation])
	}
	if got, has := c.pod(t, "cpu").Annotations[v1alpha1.AllocationAnnotation]; has {
		t.Errorf("pod cpu has the record %q", got)
	}

	// The rest of what the scheduler writes: a condition, an eviction, events, the lease.
	c.createPods(t, kit.Pod(namespace, "large", kit.GPUs(8)))
	c.waitRefused(t, "large")
	c.createPriorityClass(t, "high", 1000)
	urgent := kit.Pod(namespace, "urgent", kit.GPUs(8))
	urgent.Spec.PriorityClassName = "high"
	c.createPods(t, urgent)
	eventually(t, "pod gpu is evicted for pod urgent", func(ctx context.Context) (bool, error) {
		pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, "gpu", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return err == nil && pod.DeletionTimestamp != nil, err
	})
	for _, reason := range []string{"Scheduled", "FailedScheduling", "Preempted"} {
		c.waitEvent(t, reason, "")
	}
	for _, pod := range []string{"gpu", "share", "cpu"} {
		c.waitEvent(t, "Scheduled", pod)
		if n, err := c.countEvents(t.Context(), "Scheduled", pod); n != 1 || err != nil {
			t.Errorf("%d events say that pod %s is scheduled, want 1 (error %v)", n, pod, err)
		}
	}
	c.checkLease(t)

	log, err := os.ReadFile(c.schedulerLog())
	if err != nil {
		t.Fatal(err)
	}
	if len(log) == 0 {
		t.Fatal("the scheduler logs nothing: the test shows nothing")
	}
	for line := range strings.Lines(string(log)) {
		if contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the scheduler lacks a right: %s", line)
		}
	}
}

// checkLease holds that the lease is the scheduler's own and that there is no other of its making.
func (c *cluster) checkLease(t *testing.T) {
	t.Helper()
	leases, err := c.client.CoordinationV1().Leases(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, lease := range leases.Items {
		switch {
		case lease.Namespace == shippedNamespace && lease.Name == shippedName:
			found = lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != ""
		case contains(lease.Name, "scheduler"):
			t.Errorf("there is a lease %s/%s", lease.Namespace, lease.Name)
		}
	}
	if !found {
		t.Errorf("nobody holds the lease %s/%s", shippedNamespace, shippedName)
	}
}

// waitEvent waits for an event with this reason, about the named object if a name is given.
func (c *cluster) waitEvent(t *testing.T, reason, about string) {
	t.Helper()
	eventually(t, fmt.Sprintf("event %s about %q", reason, about), func(ctx context.Context) (bool, error) {
		n, err := c.countEvents(ctx, reason, about)
		return n > 0, err
	})
}

func (c *cluster) countEvents(ctx context.Context, reason, about string) (int, error) {
	list, err := c.client.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	n := 0
	for i := range list.Items {
		if e := &list.Items[i]; e.Reason == reason && (about == "" || e.Regarding.Name == about) {
			n++
		}
	}
	return n, nil
}

// TestShippedRights asks the API server what the account may do. What it may shows that the question works; what it may
// not is what a scheduler that is taken over could do harm with.
func TestShippedRights(t *testing.T) {
	c := startCluster(t)
	client, err := kubernetes.NewForConfig(c.install(t))
	if err != nil {
		t.Fatal(err)
	}
	type right = authorizationv1.ResourceAttributes
	tests := map[string]struct {
		right right
		want  bool
	}{
		"bind pods":                    {right{Verb: "create", Resource: "pods", Subresource: "binding", Namespace: namespace}, true},
		"watch nodes":                  {right{Verb: "watch", Resource: "nodes"}, true},
		"evict pods":                   {right{Verb: "delete", Resource: "pods", Namespace: namespace}, true},
		"write its lease":              {right{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: shippedNamespace, Name: shippedName}, true},
		"everything":                   {right{Verb: "*", Group: "*", Resource: "*"}, false},
		"everything with pods":         {right{Verb: "*", Resource: "pods", Namespace: namespace}, false},
		"everything with nodes":        {right{Verb: "*", Resource: "nodes"}, false},
		"make pods":                    {right{Verb: "create", Resource: "pods", Namespace: namespace}, false},
		"make pods in its namespace":   {right{Verb: "create", Resource: "pods", Namespace: shippedNamespace}, false},
		"change pods":                  {right{Verb: "update", Resource: "pods", Namespace: namespace}, false},
		"annotate pods":                {right{Verb: "patch", Resource: "pods", Namespace: namespace}, false},
		"delete all pods at once":      {right{Verb: "deletecollection", Resource: "pods", Namespace: namespace}, false},
		"run commands in pods":         {right{Verb: "create", Resource: "pods", Subresource: "exec", Namespace: namespace}, false},
		"list secrets":                 {right{Verb: "list", Resource: "secrets"}, false},
		"read secrets":                 {right{Verb: "get", Resource: "secrets", Namespace: shippedNamespace}, false},
		"read configuration":           {right{Verb: "get", Resource: "configmaps", Namespace: namespace}, false},
		"delete nodes":                 {right{Verb: "delete", Resource: "nodes"}, false},
		"change nodes":                 {right{Verb: "patch", Resource: "nodes"}, false},
		"reach through nodes":          {right{Verb: "get", Resource: "nodes", Subresource: "proxy"}, false},
		"write another lease":          {right{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: shippedNamespace, Name: "other"}, false},
		"write kube-scheduler's lease": {right{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Namespace: "kube-system", Name: "kube-scheduler"}, false},
		"make tokens":                  {right{Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: shippedNamespace}, false},
		"give itself rights":           {right{Verb: "create", Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}, false},
		"be somebody else":             {right{Verb: "impersonate", Resource: "users"}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &tt.right}}
			var got bool
			check := func(ctx context.Context) (bool, error) {
				answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
				if err != nil {
					return false, err
				}
				got = answer.Status.Allowed
				return got || !tt.want, nil
			}
			eventually(t, "may "+name, check) // the authorizer hears of new roles through a watch
			if got != tt.want {
				t.Errorf("allowed: %t, want %t", got, tt.want)
			}
		})
	}
}
