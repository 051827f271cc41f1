package gputopology

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestTerminatingIsSaid: whoever waits is told that cards come free by themselves, and nobody is who asks for more than the
// node has.
func TestTerminatingIsSaid(t *testing.T) {
	node := kit.Node("n1", kit.N2("n1"))
	end := func(p *v1.Pod) {
		p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1e9, 0)}
		p.Finalizers = []string{"test/keeps-it"}
	}
	tests := map[string]struct {
		option kit.PodOption
		gpus   int64
		want   bool
	}{
		"the holder terminates":                     {end, 2, true},
		"the holder runs":                           {func(*v1.Pod) {}, 2, false},
		"the holder terminates, more than there is": {end, 3, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, node, kit.Pod("ns", "old", kit.UID("u1"), kit.GPUs(1), kit.OnNode("n1"), tt.option))
			pod := kit.Pod("ns", "p", kit.UID("u2"), kit.GPUs(tt.gpus))
			state, status := f.cycle(t, pod)
			if !status.IsSuccess() {
				t.Fatalf("PreFilter: %v", status)
			}
			reason := f.Filter(f.ctx, state, pod, f.nodeInfo(t, node)).Message()
			if reason == "" || strings.Contains(reason, engine.TerminatingNote) != tt.want {
				t.Errorf("refused with %q; want the note %q: %t", reason, engine.TerminatingNote, tt.want)
			}
		})
	}
}
