package simulate

import (
	"errors"
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/simulate/oracle"
)

// witness sees every change of the members of gangs, in the order in which the API server made them, and holds that no card
// is held twice at any moment.
type witness struct {
	// pods has the latest state of each member by name.
	pods map[string]*v1.Pod
	// held is who holds which cards now.
	held   *oracle.Cluster
	faults []error
}

func newWitness(c *oracle.Cluster) *witness {
	return &witness{pods: map[string]*v1.Pod{}, held: c}
}

// see takes one event of a watch.
func (w *witness) see(event watch.EventType, pod *v1.Pod) {
	before := w.pods[pod.Name]
	w.pods[pod.Name] = pod
	if event == watch.Deleted {
		w.fault(fmt.Errorf("pod %s: %w", pod.Name, errDeleted))
		w.held.Remove(pod.Name)
		return
	}
	if pod.Status.Phase == v1.PodFailed {
		w.fault(fmt.Errorf("pod %s failed: %s", pod.Name, pod.Status.Message))
	}
	switch {
	case ended(pod):
		w.held.Remove(pod.Name)
	case pod.Spec.NodeName != "" && (before == nil || before.Spec.NodeName == ""):
		record, err := recordOf(pod)
		if err == nil {
			err = w.held.Place(pod.Name, record)
		}
		w.fault(err)
	}
}

func (w *witness) fault(err error) {
	if err != nil {
		w.faults = append(w.faults, err)
	}
}

// of returns the members of a gang that were seen, in the order of their names.
func (w *witness) of(g *gang) []*v1.Pod {
	var pods []*v1.Pod
	for rank := range g.size {
		if pod := w.pods[g.member(rank)]; pod != nil {
			pods = append(pods, pod)
		}
	}
	return pods
}

// count returns how many members of a gang meet a condition.
func (w *witness) count(g *gang, meets func(*v1.Pod) bool) int {
	n := 0
	for _, pod := range w.of(g) {
		if meets(pod) {
			n++
		}
	}
	return n
}

// all says whether every member of a gang meets a condition.
func (w *witness) all(g *gang, meets func(*v1.Pod) bool) bool { return w.count(g, meets) == g.size }

func bound(pod *v1.Pod) bool   { return pod.Spec.NodeName != "" }
func running(pod *v1.Pod) bool { return bound(pod) && pod.Status.Phase == v1.PodRunning }
func waiting(pod *v1.Pod) bool { return !bound(pod) && unschedulable(pod) != "" }

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// saysAll says whether a text has all the parts.
func saysAll(text string, parts []string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// memberOf reads a watch event of a member.
func memberOf(event watch.Event) (*v1.Pod, error) {
	pod, ok := event.Object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("watch event of type %s", event.Type)
	}
	if pod.Labels[v1alpha1.PodGroupLabel] == "" {
		return nil, errors.New("pod " + pod.Name + " is in no gang")
	}
	return pod, nil
}
