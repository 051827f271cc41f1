package coscheduling

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/book"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// site is two zones of two leaves of two nodes: z<zone>l<leaf>n<node>.
func site() []*v1.Node {
	var nodes []*v1.Node
	for i := range 8 {
		zone, leaf := i/4, i/2
		name := fmt.Sprintf("z%dl%dn%d", zone, leaf, i%2)
		n := kit.Node(name, kit.N8s(name))
		n.Labels["network.topology.nvidia.com/leaf"] = fmt.Sprintf("leaf-%d", leaf)
		n.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", zone)
		nodes = append(nodes, n)
	}
	return nodes
}

func (f *fixture) startFabric(t *testing.T, edit ...func(*config.NCCLTopologyArgs)) {
	t.Helper()
	args := &config.NCCLTopologyArgs{}
	for _, e := range edit {
		e(args)
	}
	config.SetNCCLDefaults(args)
	if err := f.engine.StartFabric(f.handle, args, klog.Background()); err != nil {
		t.Fatal(err)
	}
	f.eventually(t, "the fabric holds the nodes", func() bool { return f.engine.Fabric().Len() == len(f.nodes) })
}

// TestGangsByTheFabric: where a gang of whole nodes goes, or why it waits.
func TestGangsByTheFabric(t *testing.T) {
	wish := func(w podgroup.Wish) func(*podgroup.Group) { return func(g *podgroup.Group) { g.Wish = w } }
	tests := map[string]struct {
		size  int
		group func(*podgroup.Group)
		args  func(*config.NCCLTopologyArgs)
		// wantShared is what all names of nodes begin with; wantReason what the refusal says, "" for a plan.
		wantShared string
		wantReason []string
	}{
		"a leaf holds it":           {2, wish(podgroup.Wish{}), nil, "z0l0", nil},
		"a zone holds it":           {4, wish(podgroup.Wish{}), nil, "z0", nil},
		"no zone holds it":          {5, wish(podgroup.Wish{}), nil, "", []string{"4 of 5", "zone"}},
		"zones may be crossed":      {5, wish(podgroup.Wish{}), func(a *config.NCCLTopologyArgs) { a.AllowCrossZone = true }, "z", nil},
		"one leaf, by name":         {3, wish(podgroup.Wish{Required: "rack"}), nil, "", []string{"2 of 3", "leaf"}},
		"one leaf, by label":        {2, wish(podgroup.Wish{Required: "network.topology.nvidia.com/leaf"}), nil, "z0l0", nil},
		"a level that nobody knows": {2, wish(podgroup.Wish{Required: "row"}), nil, "", []string{"required-topology", `"row"`}},
		"a wish that nobody knows":  {2, wish(podgroup.Wish{Preferred: "row"}), nil, "", []string{"preferred-topology", `"row"`}},
		"pairs on a leaf":           {4, wish(podgroup.Wish{SliceSize: 2, SliceLevel: "leaf"}), nil, "z0", nil},
		"slices of three":           {3, wish(podgroup.Wish{SliceSize: 3, SliceLevel: "leaf"}), nil, "", []string{"leaf"}},
		"NVLink":                    {2, wish(podgroup.Wish{Interconnect: v1alpha1.InterconnectNVLink}), nil, "z0l0", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			pods := members("a", tt.size, kit.GPUs(8))
			f := newFixture(t, objects(site(), pods)...)
			if tt.args == nil {
				tt.args = func(*config.NCCLTopologyArgs) {}
			}
			f.startFabric(t, tt.args)
			f.seesGroup("a", tt.size, tt.group)
			_, node, status := f.prefilter(t, pods[0])
			if len(tt.wantReason) > 0 {
				for _, want := range tt.wantReason {
					if status.IsSuccess() || !strings.Contains(status.Message(), want) {
						t.Errorf("%q does not say %q", status.Message(), want)
					}
				}
				return
			}
			if !status.IsSuccess() || node == "" {
				t.Fatalf("PreFilter: %v", status)
			}
			ranks := map[int]bool{}
			for _, pod := range pods {
				planned := f.book.Planned(ledger.PodUID(pod.UID))
				if planned == nil || !strings.HasPrefix(string(planned.Node), tt.wantShared) {
					t.Fatalf("pod %s is planned as %+v, want a node of %s", pod.Name, planned, tt.wantShared)
				}
				ranks[planned.Rank] = true
			}
			for rank := range tt.size {
				if !ranks[rank] {
					t.Errorf("no member has rank %d: %v", rank, ranks)
				}
			}
		})
	}
}

// TestWishWithoutFabric: a wish about the network is not ignored where nobody knows the network.
func TestWishWithoutFabric(t *testing.T) {
	pods := members("a", 2, kit.GPUs(8))
	f := newFixture(t, objects(site(), pods)...)
	f.seesGroup("a", 2, func(g *podgroup.Group) { g.Wish.Required = "leaf" })
	if _, _, status := f.prefilter(t, pods[0]); status.IsSuccess() || !strings.Contains(status.Message(), "NCCLTopology") {
		t.Errorf("PreFilter: %v", status)
	}
	if _, member := book.KeyOf(pods[0]); !member {
		t.Error("the fixture's pods are no members")
	}
}
