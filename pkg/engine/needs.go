package engine

import (
	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// NeedsOf is what the scheduler's cache will count for a pod. Affinity terms that cannot be read do not matter to it.
func NeedsOf(pod *v1.Pod) fwk.Resource {
	info, err := framework.NewPodInfo(pod)
	if info == nil {
		return &framework.Resource{}
	}
	_ = err // of affinity terms that cannot be parsed, which a cycle of the pod itself refuses
	return info.CalculateResource().Resource
}
