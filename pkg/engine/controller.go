package engine

import (
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// spreading are the controllers whose selectors default topology spread constraints use.
var spreading = map[schema.GroupVersionKind]bool{
	v1.SchemeGroupVersion.WithKind("ReplicationController"): true,
	appsv1.SchemeGroupVersion.WithKind("ReplicaSet"):        true,
	appsv1.SchemeGroupVersion.WithKind("StatefulSet"):       true,
}

// SpreadByController reports whether the pod's controller is one whose selector default topology spread constraints use. It goes by the
// pod's own reference, which is there before an informer shows the controller.
func SpreadByController(pod *v1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && spreading[schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)]
}
