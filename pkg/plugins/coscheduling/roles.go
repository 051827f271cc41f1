package coscheduling

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// role is what pods that ask for the same have in common.
type role struct {
	// pod is the first of them.
	pod      *v1.Pod
	name     string
	request  *allocate.Request
	needs    fwk.Resource
	affinity nodeaffinity.RequiredNodeAffinity
	// alone are the selectors of pods that may not share a host with one of this role, where they select the role itself.
	alone []labels.Selector
	// dialects are the record dialects of the role's profile.
	dialects []string
}

// roleLabels name a pod's part in its job: Kubeflow, JobSet, KubeRay, and what is left of older operators.
var roleLabels = []string{
	"training.kubeflow.org/replica-type", "jobset.sigs.k8s.io/replicatedjob-name", "ray.io/node-type", "leaderworkerset.sigs.k8s.io/role",
}

// rolesOf sorts pods by what they ask for. The second result is the role of each pod. The error names the pod whose request
// cannot be read.
func (p *Plugin) rolesOf(pods []book.Candidate) ([]*role, []int, error) {
	var roles []*role
	at := make([]int, len(pods))
	for i := range pods {
		pod := pods[i].Pod
		at[i] = slices.IndexFunc(roles, func(r *role) bool { return sameAsk(r.pod, pod) })
		if at[i] >= 0 {
			continue
		}
		r, err := p.newRole(pod)
		if err != nil {
			return nil, nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		at[i] = len(roles)
		roles = append(roles, r)
	}
	if len(roles) > placement.MaxRoles {
		return nil, nil, fmt.Errorf("its pods ask for %d different things, at most %d can be planned together", len(roles), placement.MaxRoles)
	}
	return roles, at, nil
}

func (p *Plugin) newRole(pod *v1.Pod) (*role, error) {
	args := p.engine.Profile(pod.Spec.SchedulerName)
	if args == nil {
		return nil, fmt.Errorf("profile %s does not run GPUTopology, without which no cards can be planned", pod.Spec.SchedulerName)
	}
	asked, err := request.FromPodWithDefaults(pod, args.RequestDefaults())
	if err != nil {
		return nil, err
	}
	r := &role{
		pod: pod, request: asked, affinity: nodeaffinity.GetRequiredNodeAffinity(pod), dialects: args.RecordDialects,
		needs: needsOf(pod),
	}
	if asked != nil {
		if err := record.Check(asked, args.RecordDialects); err != nil {
			return nil, err
		}
	}
	for _, key := range roleLabels {
		if name := pod.Labels[key]; name != "" {
			r.name = strings.ToLower(name)
			break
		}
	}
	r.alone, err = selfExclusions(pod)
	return r, err
}

// needsOf is what the scheduler's cache will count for a pod.
func needsOf(pod *v1.Pod) fwk.Resource {
	info, err := framework.NewPodInfo(pod)
	if info == nil {
		return &framework.Resource{}
	}
	_ = err // of affinity terms that cannot be parsed, which a cycle of the pod itself refuses
	return info.CalculateResource().Resource
}

// selfExclusions returns the selectors of the pod's required anti-affinity terms on hosts that select the pod itself: at most
// one of its like runs on a node.
func selfExclusions(pod *v1.Pod) ([]labels.Selector, error) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.PodAntiAffinity == nil {
		return nil, nil
	}
	var out []labels.Selector
	for i, term := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != v1.LabelHostname || len(term.Namespaces) > 0 && !slices.Contains(term.Namespaces, pod.Namespace) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("spec.affinity.podAntiAffinity term %d: %w", i, err)
		}
		if selector.Matches(labels.Set(pod.Labels)) {
			out = append(out, selector)
		}
	}
	return out, nil
}

// sameAsk reports whether two pods ask for the same, as far as a plan looks at it.
func sameAsk(a, b *v1.Pod) bool {
	return a.Spec.SchedulerName == b.Spec.SchedulerName &&
		maps.Equal(a.Spec.NodeSelector, b.Spec.NodeSelector) &&
		reflect.DeepEqual(a.Spec.Affinity, b.Spec.Affinity) &&
		reflect.DeepEqual(a.Spec.Tolerations, b.Spec.Tolerations) &&
		sameContainers(a.Spec.InitContainers, b.Spec.InitContainers) &&
		sameContainers(a.Spec.Containers, b.Spec.Containers) &&
		reflect.DeepEqual(a.Spec.Overhead, b.Spec.Overhead) &&
		reflect.DeepEqual(a.Spec.Resources, b.Spec.Resources) &&
		sameWish(a.Annotations, b.Annotations) && sameLevels(a, b) && sameName(a, b)
}

func sameName(a, b *v1.Pod) bool {
	for _, key := range roleLabels {
		if a.Labels[key] != b.Labels[key] {
			return false
		}
	}
	return true
}

func sameContainers(a, b []v1.Container) bool {
	return slices.EqualFunc(a, b, func(x, y v1.Container) bool {
		return x.Name == y.Name && reflect.DeepEqual(x.RestartPolicy, y.RestartPolicy) &&
			sameAmounts(x.Resources.Requests, y.Resources.Requests) && sameAmounts(x.Resources.Limits, y.Resources.Limits)
	})
}

func sameAmounts(a, b v1.ResourceList) bool {
	if len(a) != len(b) {
		return false
	}
	for name, q := range a {
		other, ok := b[name]
		if !ok || q.Cmp(other) != 0 {
			return false
		}
	}
	return true
}

// sameWish compares the annotations that a request is read from.
func sameWish(a, b map[string]string) bool {
	for key, value := range a {
		if request.Reads(key) && b[key] != value {
			return false
		}
	}
	for key := range b {
		if _, ok := a[key]; !ok && request.Reads(key) {
			return false
		}
	}
	return true
}

// dimensions are the resources of a problem: those that the scheduler always counts, the extended ones that a role asks for,
// and one for each role of which a node may hold only one.
type dimensions struct {
	scalars []v1.ResourceName
	alone   []int
}

const fixedDimensions = 4 // CPU, memory, ephemeral storage, pods

func dimensionsOf(roles []*role) *dimensions {
	d := &dimensions{}
	names := map[v1.ResourceName]bool{}
	for i, r := range roles {
		for name, n := range r.needs.GetScalarResources() {
			if n > 0 && request.Counted(name) {
				names[name] = true
			}
		}
		if len(r.alone) > 0 {
			d.alone = append(d.alone, i)
		}
	}
	d.scalars = slices.Sorted(maps.Keys(names))
	return d
}

// names are the words for the dimensions in sentences.
func (d *dimensions) names(roles []*role) []string {
	out := []string{"CPU", "memory", "ephemeral storage", "pods"}
	for _, name := range d.scalars {
		out = append(out, string(name))
	}
	for _, i := range d.alone {
		out = append(out, "hosts without another "+roles[i].title()+" (anti-affinity)")
	}
	return out
}

func (r *role) title() string {
	if r.name == "" {
		return "pod"
	}
	return r.name
}

func (d *dimensions) len() int { return fixedDimensions + len(d.scalars) + len(d.alone) }

// fill writes the amounts of r into out; pods is how many pods they are of.
func (d *dimensions) fill(out []int64, r fwk.Resource, pods int64) {
	out[0], out[1], out[2], out[3] = r.GetMilliCPU(), r.GetMemory(), r.GetEphemeralStorage(), pods
	scalars := r.GetScalarResources()
	for i, name := range d.scalars {
		out[fixedDimensions+i] = scalars[name]
	}
}

// need is what one member of role i asks for.
func (d *dimensions) need(roles []*role, i int) []int64 {
	out := make([]int64, d.len())
	d.fill(out, roles[i].needs, 1)
	for k, at := range d.alone {
		if at == i {
			out[fixedDimensions+len(d.scalars)+k] = 1
		}
	}
	return out
}

// meets reports whether a node already has a pod that role i may not share it with.
func (r *role) meets(pods []fwk.PodInfo) bool {
	return slices.ContainsFunc(pods, func(info fwk.PodInfo) bool { return r.repels(info.GetPod()) })
}

// repels reports whether a member of the role may not share a host with the pod.
func (r *role) repels(pod *v1.Pod) bool {
	return pod.Namespace == r.pod.Namespace &&
		slices.ContainsFunc(r.alone, func(s labels.Selector) bool { return s.Matches(labels.Set(pod.Labels)) })
}
