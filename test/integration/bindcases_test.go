package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// withoutBackoff has pods that met an error tried again at once.
func withoutBackoff(loaded *schedconfig.KubeSchedulerConfiguration) {
	loaded.PodInitialBackoffSeconds, loaded.PodMaxBackoffSeconds = 0, 0
}

// enable adds plugins of the test: first stands before all others, last after them.
func enable(loaded *schedconfig.KubeSchedulerConfiguration, first, last string) {
	all := &loaded.Profiles[0].Plugins.MultiPoint
	if first != "" {
		all.Enabled = append([]schedconfig.Plugin{{Name: first}}, all.Enabled...)
	}
	if last != "" {
		all.Enabled = append(all.Enabled, schedconfig.Plugin{Name: last})
	}
}

// factoryOf is the factory of a plugin that the test has made already.
func factoryOf(plugin fwk.Plugin) frameworkruntime.PluginFactory {
	return func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) { return plugin, nil }
}

// answering changes a replica's transport; see answers.
func answering(pick func(*http.Request) int) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper { return &answers{next, pick} }
}

// end deletes a pod as its owner would: it terminates, and goes once its kubelet has stopped it.
func (c *cluster) end(t *testing.T, name string) {
	t.Helper()
	c.terminate(t, name)
	c.deletePods(t, name)
}

// terminate begins a deletion that the pod's kubelet would have ten minutes for.
func (c *cluster) terminate(t *testing.T, name string) {
	t.Helper()
	grace := int64(600)
	if err := c.client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &grace}); err != nil {
		t.Fatalf("delete pod %s: %v", name, err)
	}
}

// TestCaseB042PreBindOfAnotherPluginFails: the account may not update a claim, so that the volume plugin fails at PreBind,
// ten times. Nothing is held when a try begins, nor when it has failed. Once the rights are there the pod runs, and when it
// is gone all cards are free.
func TestCaseB042PreBindOfAnotherPluginFails(t *testing.T) {
	const failures = 10
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	var writes, left atomic.Int32
	var shared atomic.Pointer[engine.Engine]
	first := &rejecter{name: rejectFirst, label: "nobody", engine: &shared, left: &left}
	r := startReplica(t, c.config, replicaOptions{
		registry: frameworkruntime.Registry{rejectFirst: factoryOf(first)},
		configure: func(loaded *schedconfig.KubeSchedulerConfiguration) {
			withoutBackoff(loaded)
			enable(loaded, rejectFirst, "")
		},
		wrap: answering(func(r *http.Request) int {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/persistentvolumeclaims/") && writes.Add(1) <= failures {
				return http.StatusForbidden
			}
			return 0
		}),
	})
	shared.Store(r.engine)
	c.createClaim(t, "data")
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(2), func(p *v1.Pod) {
		source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}
		p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: source}}
	}))
	c.provision(t, "data")
	c.waitBound(t, "p")
	if n := writes.Load(); n != failures+1 {
		t.Errorf("the claim was written %d times, want %d refused and one more", n, failures)
	}
	if n := left.Load(); n != 0 {
		t.Errorf("cards were held %d times when a try began or had failed", n)
	}
	c.check(t, r)
	c.finish(t, "p", v1.PodRunning)
	c.end(t, "p")
	r.waitFree(t, 8)
	c.check(t, r)
}

// createClaim makes a claim whose volume is made once a pod that wants it has a node.
func (c *cluster) createClaim(t *testing.T, name string) {
	t.Helper()
	late, class := storagev1.VolumeBindingWaitForFirstConsumer, "late"
	_, err := c.client.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "test.example/disks", VolumeBindingMode: &late,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	claim.Spec.StorageClassName, claim.Spec.AccessModes = &class, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	claim.Spec.Resources.Requests = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	if _, err := c.client.CoreV1().PersistentVolumeClaims(namespace).Create(t.Context(), claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// provision does what a provisioner and the volume controller do, once the scheduler has written a node into the claim.
func (c *cluster) provision(t *testing.T, name string) {
	t.Helper()
	claims := c.client.CoreV1().PersistentVolumeClaims(namespace)
	var claim *v1.PersistentVolumeClaim
	eventually(t, "claim "+name+" has a node", func(ctx context.Context) (bool, error) {
		var err error
		claim, err = claims.Get(ctx, name, metav1.GetOptions{})
		return err == nil && claim.Annotations["volume.kubernetes.io/selected-node"] != "", err
	})
	volume := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	volume.Spec.Capacity, volume.Spec.AccessModes = claim.Spec.Resources.Requests, claim.Spec.AccessModes
	volume.Spec.StorageClassName = *claim.Spec.StorageClassName
	volume.Spec.ClaimRef = &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: claim.UID}
	volume.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: "test.example", VolumeHandle: name}
	if _, err := c.client.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	claim.Spec.VolumeName = name
	claim.Annotations["pv.kubernetes.io/bind-completed"] = "yes"
	if _, err := claims.Update(t.Context(), claim, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

const lookerName = "Looker"

// looker keeps the pods that PreBind is given, and compares each with a copy made then once its bind has come to an end.
type looker struct {
	mu     sync.Mutex
	given  map[types.UID][2]*v1.Pod // the pod itself and the copy
	bound  int
	failed int
	diffs  []string
}

func (*looker) Name() string { return lookerName }

func (*looker) PreBindPreFlight(context.Context, fwk.CycleState, *v1.Pod, string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	return nil, nil
}

func (l *looker) PreBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) *fwk.Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given[pod.UID] = [2]*v1.Pod{pod, pod.DeepCopy()}
	return nil
}

func (*looker) Reserve(context.Context, fwk.CycleState, *v1.Pod, string) *fwk.Status { return nil }

func (l *looker) Unreserve(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	l.compare(pod, &l.failed)
}

func (l *looker) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	l.compare(pod, &l.bound)
}

func (l *looker) compare(pod *v1.Pod, outcome *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*outcome++
	if d := cmp.Diff(l.given[pod.UID][1], l.given[pod.UID][0]); d != "" {
		l.diffs = append(l.diffs, d)
	}
}

// wait waits until so many binds have come through, and at least so many have failed.
func (l *looker) wait(t *testing.T, bound, failed int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d bound, %d failed", bound, failed), func(context.Context) (bool, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.bound != bound || l.failed < failed {
			return false, fmt.Errorf("%d have come through, %d have failed", l.bound, l.failed)
		}
		return true, nil
	})
}

// TestCaseB043BindKeepsThePodAsItIs: the pod takes all the memory of the only node. Ten are bound and deleted one after the
// other, and ten more after a bind that failed behind PreBind. The pod that PreBind was given, which is the one in the
// scheduler's cache, is never written to, so that what it took is always given back.
func TestCaseB043BindKeepsThePodAsItIs(t *testing.T) {
	const rounds = 10
	c := startCluster(t)
	node := kit.Node("n1", kit.N8s("n1"))
	node.Status.Allocatable[v1.ResourceMemory] = resource.MustParse("32Gi")
	c.createNodes(t, node)
	look, binds := &looker{given: map[types.UID][2]*v1.Pod{}}, &bindings{}
	r := startReplica(t, c.config, replicaOptions{
		registry: frameworkruntime.Registry{lookerName: factoryOf(look)},
		configure: func(loaded *schedconfig.KubeSchedulerConfiguration) {
			withoutBackoff(loaded)
			enable(loaded, "", lookerName)
		},
		wrap: answering(binds.pick),
	})
	whole := func(p *v1.Pod) {
		requests := p.Spec.Containers[0].Resources.Requests
		requests[v1.ResourceMemory] = resource.MustParse("32Gi")
	}
	for i := range 2 * rounds {
		name := fmt.Sprintf("p-%d", i)
		if i >= rounds {
			binds.refuse(name, http.StatusConflict, math.MaxInt)
		}
		c.createPods(t, kit.Pod(namespace, name, kit.GPUs(1), whole))
		if i < rounds {
			c.waitBound(t, name)
		}
		look.wait(t, min(i+1, rounds), max(0, i+1-rounds))
		if i == 0 {
			c.createPods(t, kit.Pod(namespace, "over", kit.GPUs(1), whole))
			if reason := c.waitRefused(t, "over"); !contains(reason, "Insufficient memory") {
				t.Fatalf("another pod waits with %q: the memory is not all taken, the test shows nothing", reason)
			}
			c.deletePods(t, "over")
		}
		c.deletePods(t, name)
	}
	c.check(t, r)
	r.waitFree(t, 8)
	c.createPods(t, kit.Pod(namespace, "last", kit.GPUs(1), whole))
	c.waitBound(t, "last")
	look.wait(t, rounds+1, rounds)
	look.mu.Lock()
	defer look.mu.Unlock()
	for _, d := range look.diffs {
		t.Errorf("the pod that PreBind was given has changed (-before +after):\n%s", d)
	}
}

// TestCaseB049FailedBindThenAnotherNode: the Binding to the first node does not go through, and the node is cordoned. The
// pod is bound to the second one: the first has nothing of it, and the record names cards of the second alone.
func TestCaseB049FailedBindThenAnotherNode(t *testing.T) {
	c := startCluster(t)
	clock := startClock(t)
	var code, answered atomic.Int32
	r := startReplica(t, c.config, replicaOptions{clock: clock, configure: withoutBackoff, wrap: answering(func(r *http.Request) int {
		if code.Load() == 0 || !isBind("p-")(r) || !bodyHas(r, "GPU-first-") {
			return 0
		}
		answered.Add(1)
		return int(code.Load())
	})})
	// A 500 may come from a server that lost sight of its own write, so the cards stay held until no commit can follow.
	for name, with := range map[string]int32{"500": http.StatusInternalServerError, "409": http.StatusConflict} {
		t.Run(name, func(t *testing.T) {
			answered.Store(0)
			code.Store(with)
			first, second := kit.Node("first-"+name, kit.N8s("first-"+name)), kit.Node("second-"+name, kit.N8s("second-"+name))
			second.Spec.Unschedulable = true
			p := kit.Pod(namespace, "p-"+name, kit.GPUs(4))
			p.Spec.NodeSelector = map[string]string{"case": name}
			for _, n := range []*v1.Node{first, second} {
				n.Labels["case"] = name
			}
			c.createNodes(t, first, second)
			c.createPods(t, p)
			uid := ledger.PodUID(c.pod(t, p.Name).UID)
			eventually(t, "the bind fails", func(context.Context) (bool, error) { return answered.Load() > 0, nil })
			if with == http.StatusInternalServerError {
				eventually(t, "outcome unknown", r.hasStage(uid, ledger.StageUnknown))
				if free := r.engine.Ledger().Node(ledger.NodeName(first.Name)).Free.Len(); free != 4 {
					t.Errorf("%d cards are free while the outcome is not known, want 4", free)
				}
			}
			c.cordon(t, first.Name, true)
			c.cordon(t, second.Name, false)
			if with == http.StatusInternalServerError {
				clock.Step(2 * time.Minute)
			}
			c.waitBound(t, p.Name)
			c.check(t, r)
			for node, want := range map[string]int{first.Name: 8, second.Name: 4} {
				if free := r.engine.Ledger().Node(ledger.NodeName(node)).Free.Len(); free != want {
					t.Errorf("%d cards of node %s are free, want %d", free, node, want)
				}
			}
			c.namesOnly(t, p.Name, second.Name)
		})
	}
}

// bodyHas looks into the body of a request without taking it.
func bodyHas(r *http.Request, part string) bool {
	if r.GetBody == nil {
		return false
	}
	body, err := r.GetBody()
	if err != nil {
		return false
	}
	data, err := io.ReadAll(body)
	return err == nil && bytes.Contains(data, []byte(part))
}

// namesOnly holds that the record of a pod names its node, and no card that is not of that node.
func (c *cluster) namesOnly(t *testing.T, pod, node string) {
	t.Helper()
	p := c.pod(t, pod)
	parsed, err := v1alpha1.ParseRecord(p.Annotations[v1alpha1.AllocationAnnotation])
	if err != nil {
		t.Fatalf("record of pod %s: %v", pod, err)
	}
	if parsed.Node != node || p.Spec.NodeName != node {
		t.Errorf("pod %s is on node %s and its record names %s, want %s", pod, p.Spec.NodeName, parsed.Node, node)
	}
	for _, card := range parsed.Cards {
		if !strings.HasPrefix(card.UUID, "GPU-"+node+"-") {
			t.Errorf("the record of pod %s on node %s names card %s", pod, node, card.UUID)
		}
	}
}

func (c *cluster) cordon(t *testing.T, node string, cordoned bool) {
	t.Helper()
	_, err := c.client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, cordoned), metav1.PatchOptions{})
	if err != nil {
		t.Fatalf("cordon node %s: %v", node, err)
	}
}
