package observe

import v1 "k8s.io/api/core/v1"

// terminatingIndex finds the pods that are being deleted and hold GPUs until they are gone, by their node.
const terminatingIndex = "gputopology.io/node-of-terminating-gpu-pod"

// nodeOfTerminating is the index function of terminatingIndex.
func nodeOfTerminating(object any) ([]string, error) {
	if pod, ok := object.(*v1.Pod); ok && pod.DeletionTimestamp == nil {
		return nil, nil // nearly every pod
	}
	bucket, err := bucketOfGPUPod(object)
	if err != nil || len(bucket) == 0 {
		return nil, err
	}
	return []string{object.(*v1.Pod).Spec.NodeName}, nil //nolint:errcheck // bucketOfGPUPod refuses what is no pod
}

// Terminating reports whether pods on the node that are being deleted still hold GPUs. It asks the informer's store, and
// takes a fraction of a microsecond.
func (o *Observer) Terminating(node string) bool {
	pods, err := o.podStore.IndexKeys(terminatingIndex, node)
	return err == nil && len(pods) > 0
}

// AnyTerminating reports whether there is a node that Terminating would now say yes of. Who asks about many nodes asks this
// first: nearly always there is none.
func (o *Observer) AnyTerminating() bool {
	return len(o.podStore.ListIndexFuncValues(terminatingIndex)) > 0
}
