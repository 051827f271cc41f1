package request

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// hamiNUMABind is HAMi's way of asking for cards of one NUMA node: "true" or "false".
const hamiNUMABind = nvidiaPrefix + "numa-bind"

// unsupported are HAMi's limits on which cards a pod may get. They are not read, and a pod that has one is refused:
// placing it on a card that it excludes would be worse.
var unsupported = [...]string{
	nvidiaPrefix + "use-gpuuuid", nvidiaPrefix + "nouse-gpuuuid", nvidiaPrefix + "use-gputype", nvidiaPrefix + "nouse-gputype",
}

// readPolicies reads what a pod with claims wants of NUMA nodes and network adapters.
func readPolicies(pod *v1.Pod, req *allocate.Request, defaults allocate.Request) error {
	for _, key := range unsupported {
		if field, value, ok := annotation(pod, key); ok {
			return invalid(field, value, "is not supported; select nodes by their labels instead")
		}
	}
	numa, err := policy(pod, v1alpha1.NUMAPolicyAnnotation, v1alpha1.PolicyNone, v1alpha1.PolicyPrefer, v1alpha1.PolicyRequire)
	if err != nil {
		return err
	}
	bind, err := policy(pod, hamiNUMABind, "true", "false")
	if err != nil {
		return err
	}
	if bind == "true" {
		if numa != "" && numa != v1alpha1.PolicyRequire {
			field, value, _ := annotation(pod, hamiNUMABind)
			return invalid(field, value, fmt.Sprintf("disagrees with metadata.annotations[%s], which is %q", v1alpha1.NUMAPolicyAnnotation, numa))
		}
		numa = v1alpha1.PolicyRequire
	}
	nic, err := policy(pod, v1alpha1.NICProximityAnnotation, v1alpha1.PolicyNone, v1alpha1.PolicyPrefer, v1alpha1.PolicyRequire)
	if err != nil {
		return err
	}
	req.NUMA, req.NIC = defaults.NUMA, defaults.NIC
	switch numa {
	case v1alpha1.PolicyNone:
		req.NUMA = allocate.NUMANone
	case v1alpha1.PolicyPrefer:
		req.NUMA = allocate.NUMAPrefer
	case v1alpha1.PolicyRequire:
		req.NUMA = allocate.NUMARequire
	}
	switch nic {
	case v1alpha1.PolicyNone:
		req.NIC = allocate.NICNone
	case v1alpha1.PolicyPrefer:
		req.NIC = allocate.NICPrefer
	case v1alpha1.PolicyRequire:
		req.NIC = allocate.NICRequire
	}
	return nil
}
