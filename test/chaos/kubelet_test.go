package chaos

import (
	"fmt"
	"hash/fnv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podGC is how long pods of a node that is gone are left alone. The pod garbage collector of Kubernetes waits a minute.
const podGC = 2 * time.Second

// playKubelet moves every bound pod one stage on.
//
//	bound, Pending --> Running --(its job says so)--> Succeeded, Failed --keep--> deleted
//	being deleted ------grace------> deleted
//	its node is gone ---podGC------> deleted
func (d *driver) playKubelet() {
	now := d.now()
	for _, seen := range d.view.podsByName() {
		pod := seen.pod
		if pod.Spec.NodeName == "" {
			continue
		}
		r := d.jobs[owner(pod)]
		if r == nil {
			continue
		}
		node := d.machines[pod.Spec.NodeName]
		phase, finishes := r.finish[pod.Name]
		over := terminal(pod)
		switch age := now - seen.since; {
		case pod.DeletionTimestamp != nil:
			if age >= r.grace || d.calm {
				d.gone(pod, "stopped")
			}
		case node == nil || node.away:
			if age >= podGC || d.calm {
				d.gone(pod, "its node is gone")
			}
		case over && d.forgets(r, pod) && (age >= r.keep || d.calm):
			d.gone(pod, "ended")
		case over:
		case finishes:
			d.setPhase(pod, phase)
		case pod.Status.Phase == v1.PodPending || pod.Status.Phase == "":
			d.setPhase(pod, v1.PodRunning)
		}
	}
}

// forgets says whether the object of an ended pod goes away. Members that ended early stay listed as long as their gang, in
// half of all cases.
func (d *driver) forgets(r *running, pod *v1.Pod) bool {
	return r.ended || r.size == 0 || pod.Status.Phase == v1.PodFailed && r.recreate || hash(pod.Name)%2 == 0
}

func hash(text string) uint32 {
	h := fnv.New32a()
	if _, err := h.Write([]byte(text)); err != nil {
		panic(err)
	}
	return h.Sum32()
}

func terminal(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

func (d *driver) setPhase(pod *v1.Pod, phase v1.PodPhase) {
	patch := fmt.Sprintf(`{"metadata":{"uid":%q},"status":{"phase":%q}}`, pod.UID, phase)
	_, err := d.client.CoreV1().Pods(namespace).Patch(d.ctx, pod.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
	d.mayBeGone(err, "set phase of pod %s", pod.Name)
	if err == nil {
		d.view.acted(pod)
	}
}

// gone removes the object of a pod whose containers have stopped.
func (d *driver) gone(pod *v1.Pod, why string) {
	options := metav1.DeleteOptions{GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &pod.UID}}
	err := d.client.CoreV1().Pods(namespace).Delete(d.ctx, pod.Name, options)
	d.mayBeGone(err, "remove pod %s (%s)", pod.Name, why)
	if err == nil {
		d.view.acted(pod)
	}
}

// playControllers creates members that vanished and removes what is left of jobs that are over.
func (d *driver) playControllers() {
	for _, name := range sortedKeys(d.jobs) {
		r := d.jobs[name]
		left := 0
		for i, member := range r.names {
			pod := d.view.pod(member)
			switch {
			case pod != nil:
				left++
				if r.ended && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
					d.deletePod(member, nil) // created again just before the job ended
				}
			case d.view.expected(member):
				left++
			case !r.ended && r.recreate && r.finish[member] != v1.PodSucceeded:
				d.recreate(r, i)
			}
		}
		if r.ended && left == 0 {
			if r.size > 0 {
				d.deleteGroup(name)
			}
			delete(d.jobs, name)
		}
	}
}
