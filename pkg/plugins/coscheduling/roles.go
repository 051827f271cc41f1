package coscheduling

import (
	"cmp"
	"errors"
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

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
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
	// ports are the host ports that a member takes.
	ports []hostPort
	// dialects are the record dialects of the role's profile.
	dialects []string
}

// roleLabels name a pod's part in its job: Kubeflow, JobSet, KubeRay, and what is left of older operators.
var roleLabels = []string{
	"training.kubeflow.org/replica-type", "jobset.sigs.k8s.io/replicatedjob-name", "ray.io/node-type", "leaderworkerset.sigs.k8s.io/role",
}

// rolesOf sorts pods by what they ask for. The results are the roles, the pods and the role of each of these. Pods that cannot be
// planned are left out where need others are there, so that no pod beyond the quorum holds the gang up; else the error names
// the first of them.
func (p *Plugin) rolesOf(pods []book.Candidate, need int) ([]*role, []book.Candidate, []int, error) {
	var roles []*role
	var first error
	fit, at := make([]book.Candidate, 0, len(pods)), make([]int, 0, len(pods))
	for i := range pods {
		pod := pods[i].Pod
		k := slices.IndexFunc(roles, func(r *role) bool { return sameAsk(r.pod, pod) })
		if k < 0 {
			r, err := p.newRole(pod)
			switch {
			case err != nil:
				err = fmt.Errorf("pod %s: %w", pod.Name, err)
			case len(roles) == placement.MaxRoles:
				err = fmt.Errorf("its pods ask for more than the %d different things that can be planned together", placement.MaxRoles)
			}
			if err != nil {
				first = cmp.Or(first, err)
				continue
			}
			k = len(roles)
			roles = append(roles, r)
		}
		fit, at = append(fit, pods[i]), append(at, k)
	}
	if first != nil && len(fit) < need {
		return nil, nil, nil, first
	}
	return roles, fit, at, nil
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
		needs: engine.NeedsOf(pod), ports: hostPorts(pod),
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
	for _, key := range []string{v1alpha1.RequiredTopologyAnnotation, v1alpha1.PreferredTopologyAnnotation} {
		if _, fault := levelOf(p.engine.Fabric(), key, pod.Annotations[key]); fault != "" {
			return nil, errors.New(fault)
		}
	}
	r.alone, err = selfExclusions(pod)
	return r, err
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
		slices.Equal(hostPorts(a), hostPorts(b)) &&
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

// meets reports whether a node already has a pod that role i may not share it with.
func (r *role) meets(pods []fwk.PodInfo) bool {
	return slices.ContainsFunc(pods, func(info fwk.PodInfo) bool { return r.repels(info.GetPod()) })
}

// repels reports whether a member of the role may not share a host with the pod.
func (r *role) repels(pod *v1.Pod) bool {
	return pod.Namespace == r.pod.Namespace &&
		slices.ContainsFunc(r.alone, func(s labels.Selector) bool { return s.Matches(labels.Set(pod.Labels)) })
}
