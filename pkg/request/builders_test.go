package request

import (
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// list makes a resource list of "name=quantity" pairs.
func list(pairs ...string) v1.ResourceList {
	out := v1.ResourceList{}
	for _, p := range pairs {
		name, value, ok := strings.Cut(p, "=")
		if !ok {
			panic("no = in " + p)
		}
		out[v1.ResourceName(name)] = resource.MustParse(value)
	}
	return out
}

// box is a container whose requests equal its limits, as the API server has it.
func box(name string, pairs ...string) v1.Container {
	return v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: list(pairs...), Requests: list(pairs...)}}
}

func sidecar(c v1.Container) v1.Container {
	always := v1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// podOf makes a pod of app containers.
func podOf(containers ...v1.Container) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: v1.PodSpec{Containers: containers}}
}

// withInit puts init containers before the pod's app containers.
func withInit(pod *v1.Pod, containers ...v1.Container) *v1.Pod {
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, containers...)
	return pod
}

// annotate sets annotations given as "key=value"; the value may hold further "=".
func annotate(pod *v1.Pod, pairs ...string) *v1.Pod {
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	return pod
}
