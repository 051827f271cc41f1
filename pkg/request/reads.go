package request

import (
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// Reads reports whether a pod's annotation of that key can change what the pod asks for.
func Reads(key string) bool {
	return requestAnnotation(key) || key == kaiContainer || key == hamiNUMABind || slices.Contains(unsupported[:], key) ||
		key == v1alpha1.NUMAPolicyAnnotation || key == v1alpha1.NICProximityAnnotation
}

// Counted reports whether nodes list a resource in their allocatable, so that the scheduler's NodeResourcesFit counts it.
// The others are wishes about cards, which are counted card by card; NodeResourcesFit is configured to ignore them.
func Counted(name v1.ResourceName) bool {
	if name == hamiMemory || name == hamiPercent || name == hamiCores {
		return false
	}
	return !strings.HasPrefix(string(name), v1alpha1.GroupName+"/")
}
