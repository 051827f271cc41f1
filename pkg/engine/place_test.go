package engine

import (
	"fmt"
	"runtime"
	"testing"
	"weak"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// infoOf is a node of a snapshot.
func infoOf(name string) fwk.NodeInfo {
	info := framework.NewNodeInfo()
	info.SetNode(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
	return info
}

// TestPlacesAgreeWithNames: whatever comes and goes, what is asked by NodeInfo is what is asked by name, also by one that the
// scheduler's cache has not replaced since.
func TestPlacesAgreeWithNames(t *testing.T) {
	spec := kit.N8s("c")
	facts, err := topology.New(spec, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		e := New(Options{})
		fabric := topology.NewFabricBuilder(topology.DefaultLevels())
		trees := []*topology.Fabric{fabric.Fabric()}
		name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprint("n", rapid.IntRange(0, 3).Draw(t, "node")) })
		infos := map[string]fwk.NodeInfo{}
		t.Repeat(map[string]func(*rapid.T){
			"known":   func(t *rapid.T) { e.ledger.SetNode(ledger.NodeName(name.Draw(t, "name")), facts) },
			"removed": func(t *rapid.T) { e.ledger.RemoveNode(ledger.NodeName(name.Draw(t, "name"))) },
			"held": func(t *rapid.T) {
				n, uid := name.Draw(t, "name"), ledger.PodUID(fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "pod")))
				_ = e.ledger.Adopt(ledger.Holding{UID: uid, Pod: "ns/p", Node: ledger.NodeName(n), Cards: []allocate.CardShare{{
					UUID: spec.Cards[0].UUID, SliceMask: allocate.WholeCard, VRAMBytes: spec.Cards[0].VRAMBytes, ComputeMilli: allocate.MilliPerCard,
				}}}) // refused once the pod was released
			},
			"released": func(t *rapid.T) {
				e.ledger.Release(ledger.PodUID(fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "pod"))))
			},
			"labelled": func(t *rapid.T) {
				fabric.SetNode(name.Draw(t, "name"), map[string]string{v1.LabelTopologyZone: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "zone")})
				trees = append(trees, fabric.Fabric())
			},
			"new info": func(t *rapid.T) { n := name.Draw(t, "name"); infos[n] = infoOf(n) },
			"": func(t *rapid.T) {
				for n, info := range infos {
					if got, want := e.AllocationOf(info), e.ledger.Node(ledger.NodeName(n)); got != want {
						t.Fatalf("node %s: by NodeInfo %p, by name %p", n, got, want)
					}
					for _, f := range rapid.SliceOfN(rapid.SampledFrom(trees), 0, 2).Draw(t, "trees") {
						pos, in := e.PositionOf(info, f)
						if want, ok := f.Position(n); in != ok || in && pos != want {
							t.Fatalf("node %s: by NodeInfo at %d, %v, by name at %d, %v", n, pos, in, want, ok)
						}
					}
				}
			},
		})
	})
}

// TestPlacesTellNodesApart: nodes whose generations share a slot are not taken for each other, and neither are those of a
// NodeInfo that has no generation.
func TestPlacesTellNodesApart(t *testing.T) {
	e := New(Options{})
	e.ledger.SetNode("a", nil)
	e.ledger.SetNode("b", nil)
	for _, generation := range []int64{0, 7} {
		a, b := infoOf("a").(*framework.NodeInfo), infoOf("b").(*framework.NodeInfo) //nolint:errcheck // infoOf makes nothing else
		a.Generation, b.Generation = generation, generation+map[int64]int64{7: int64(len(e.places.slots))}[generation]
		for range 2 {
			for _, info := range []*framework.NodeInfo{a, b} {
				if got := e.AllocationOf(info); got == nil || string(got.Name) != info.Node().Name {
					t.Errorf("generation %d of node %s: %+v", info.Generation, info.Node().Name, got)
				}
			}
		}
	}
}

// TestPlacesOutliveEntries: a node that comes to the ledger after it was asked for, or that the ledger drops and takes up again, is
// found by the NodeInfo that it had all along.
func TestPlacesOutliveEntries(t *testing.T) {
	e, info := New(Options{}), infoOf("a")
	if got := e.AllocationOf(info); got != nil {
		t.Errorf("a node that the ledger does not know: %+v", got)
	}
	for round := range 3 {
		e.ledger.SetNode("a", nil)
		if got := e.AllocationOf(info); got == nil || got != e.ledger.Node("a") {
			t.Errorf("round %d: by NodeInfo %p, by name %p", round, got, e.ledger.Node("a"))
		}
		e.ledger.RemoveNode("a")
		if got := e.AllocationOf(info); got != nil {
			t.Errorf("round %d: a node that is gone: %+v", round, got)
		}
	}
}

// TestPlacesKeepNoFabric: trees that are not in use any more can go, whatever the slots remember.
func TestPlacesKeepNoFabric(t *testing.T) {
	e, builder := New(Options{}), topology.NewFabricBuilder(topology.DefaultLevels())
	var old []weak.Pointer[topology.Fabric]
	for i := range 10 {
		builder.SetNode(fmt.Sprint("n", i), nil)
		f := builder.Fabric()
		old = append(old, weak.Make(f))
		for j := range 10 {
			e.PositionOf(infoOf(fmt.Sprint("n", j)), f)
		}
	}
	runtime.GC()
	for i, f := range old[:len(old)-1] {
		if f.Value() != nil {
			t.Errorf("the tree of %d nodes is kept", i+1)
		}
	}
	runtime.KeepAlive(e)
	runtime.KeepAlive(builder)
}
