package observe

import (
	"testing"

	v1 "k8s.io/api/core/v1"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func TestTerminating(t *testing.T) {
	bound := func(options ...kit.PodOption) *v1.Pod { return with(boundPod(t, "u1", "n1", 0), options...) }
	tests := map[string]struct {
		pod  *v1.Pod
		want bool
	}{
		"runs":                     {bound(), false},
		"terminates":               {bound(terminating), true},
		"terminates, no record":    {with(kit.Pod("ns", "p", kit.UID("u1"), kit.GPUs(1), kit.OnNode("n1")), terminating), true},
		"terminates, has ended":    {bound(terminating, phase(v1.PodFailed)), false},
		"terminates, on no node":   {bound(terminating, kit.OnNode("")), false},
		"terminates, without GPUs": {with(kit.Pod("ns", "p", kit.UID("u1"), kit.OnNode("n1")), terminating), false},
		"terminates, another node": {bound(terminating, kit.OnNode("n2")), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.putNode(t, kit.Node("n1", kit.N8s("n1")))
			w.putPod(t, tt.pod)
			if tt.want && !w.AnyTerminating() {
				t.Error("no node at all is said to have terminating pods")
			}
			if got := w.Terminating("n1"); got != tt.want {
				t.Errorf("cards of n1 are held by terminating pods: %t, want %t", got, tt.want)
			}
			w.removePod(t, tt.pod)
			if w.Terminating("n1") || w.AnyTerminating() {
				t.Error("the pod is gone and still terminates")
			}
		})
	}
}
