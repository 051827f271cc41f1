package coscheduling

import (
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestPodsBeyondTheQuorumThatCannotBePlanned: they do not hold the gang up, and are named where the gang needs them.
func TestPodsBeyondTheQuorumThatCannotBePlanned(t *testing.T) {
	annotate := func(key string) func(int, *v1.Pod) {
		return func(_ int, p *v1.Pod) { kit.Annotate(key, "row")(p) }
	}
	tests := map[string]struct {
		extra int
		edit  func(i int, p *v1.Pod)
		want  string
	}{
		"a request that cannot be read":   {1, func(_ int, p *v1.Pod) { kit.GPUs(-3)(p) }, "a-0: spec.containers"},
		"a level that nobody knows":       {1, annotate(v1alpha1.RequiredTopologyAnnotation), `a-0: gputopology.io/required-topology is "row"`},
		"a wish that nobody knows":        {1, annotate(v1alpha1.PreferredTopologyAnnotation), `a-0: gputopology.io/preferred-topology is "row"`},
		"more different things than bits": {placement.MaxRoles, func(i int, p *v1.Pod) { kit.Resource("memory", int64(i+1))(p) }, "64 different things"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods := members("a", 2+tt.extra, kit.GPUs(4))
			for i, pod := range pods[:tt.extra] {
				tt.edit(i, pod)
			}
			f := newFixture(t, objects(site(), pods)...)
			f.startFabric(t)
			f.seesGroup("a", 2)
			_, _, status := f.prefilter(t, pods[len(pods)-1])
			planned := 0
			for _, pod := range pods {
				if f.book.Planned(ledger.PodUID(pod.UID)) != nil {
					planned++
				}
			}
			if planned != 2 {
				t.Errorf("%d pods are planned, want 2: %v", planned, status)
			}

			f = newFixture(t, objects(site(), pods)...)
			f.startFabric(t)
			f.seesGroup("a", len(pods))
			if _, _, status := f.prefilter(t, pods[1]); status.IsSuccess() || !strings.Contains(status.Message(), tt.want) {
				t.Errorf("PreFilter where all are needed: %v, want %q", status, tt.want)
			}
		})
	}
}

// TestMinResourcesOfHugeNodes: what nodes have in total may not fit into 64 bits.
func TestMinResourcesOfHugeNodes(t *testing.T) {
	nodes := site()
	for _, n := range nodes {
		n.Status.Allocatable[v1.ResourceMemory] = *resource.NewQuantity(math.MaxInt64, resource.BinarySI)
	}
	pods := members("a", 2, kit.GPUs(4))
	f := newFixture(t, objects(nodes, pods)...)
	f.seesGroup("a", 2, func(g *podgroup.Group) { g.MinResources = map[v1.ResourceName]int64{v1.ResourceMemory: math.MaxInt64} })
	if _, _, status := f.prefilter(t, pods[0]); !status.IsSuccess() {
		t.Errorf("PreFilter: %v", status)
	}
}

// TestHugeSlices: the room for slices need not fit into 64 bits; whoever writes such a size does not end the scheduler.
func TestHugeSlices(t *testing.T) {
	pods := members("a", 2, kit.GPUs(8))
	kit.Annotate(v1alpha1.RankAnnotation, "0")(pods[0])
	kit.Annotate(v1alpha1.RankAnnotation, "4611686018427387904")(pods[1])
	f := newFixture(t, objects(site(), pods)...)
	f.startFabric(t)
	f.seesGroup("a", 2, func(g *podgroup.Group) { g.Wish = podgroup.Wish{SliceSize: 1 << 62, SliceLevel: "host"} })
	if _, _, status := f.prefilter(t, pods[0]); status.IsSuccess() || !strings.Contains(status.Message(), "slices") {
		t.Errorf("PreFilter: %v", status)
	}
}
