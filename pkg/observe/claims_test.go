package observe_test

import (
	"context"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

type mute struct{}

func (mute) Report(runtime.Object, string, string, string) {}

func claimOf(pod types.UID, name string, drivers ...string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: pod}}
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for _, driver := range drivers {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: driver})
	}
	return claim
}

// TestClaimedGPUsAreCharged: cards that a pod holds through ResourceClaims are not free, whenever the claim is seen, and
// devices of other drivers cost no card.
func TestClaimedGPUsAreCharged(t *testing.T) {
	name := "claim"
	pod := kit.Pod("ns", "p", kit.UID("u"), kit.OnNode("n1"))
	pod.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpus", ResourceClaimName: &name}}
	client := fake.NewClientset(kit.Node("n1", kit.N8s("n1")), pod)
	factory := informers.NewSharedInformerFactory(client, 0)
	l := ledger.New()
	o := observe.New(l, observe.Options{Rates: topology.DefaultRates()}, mute{}, klog.Background(), clock.RealClock{})
	if _, err := o.Register(factory); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() { cancel(); factory.Shutdown() })
	free := func(want int) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, time.Millisecond, time.Minute, true, func(context.Context) (bool, error) {
			a := l.Node("n1")
			return a != nil && a.Free.Len() == want, nil
		})
		if err != nil {
			t.Fatalf("want %d free cards, have %+v", want, l.Node("n1"))
		}
	}
	// Until the claim is seen it may count as one card; once it is, its number is right.
	claim := claimOf("u", name, "nic.example.com", "gpu.nvidia.com", "gpu.nvidia.com")
	if _, err := client.ResourceV1().ResourceClaims("ns").Create(ctx, claim, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	free(6)
	if err := client.CoreV1().Pods("ns").Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	free(8)
}

type heard struct{ details []string }

func (h *heard) Report(_ runtime.Object, _, _, detail string) { h.details = append(h.details, detail) }

// TestRenamedCardsNeverLookFree: a description that calls a card in use by another name frees nothing, and is reported; so
// is one that lists the cards of another node.
func TestRenamedCardsNeverLookFree(t *testing.T) {
	spec := kit.N8s("n1")
	client := fake.NewClientset()
	factory := informers.NewSharedInformerFactory(client, 0)
	l, reports := ledger.New(), &heard{}
	o := observe.New(l, observe.Options{Rates: topology.DefaultRates()}, reports, klog.Background(), clock.RealClock{})
	if _, err := o.Register(factory); err != nil {
		t.Fatal(err)
	}
	store := factory.Core().V1().Nodes().Informer().GetStore()
	seen := func(node *v1.Node) {
		t.Helper()
		if err := store.Add(node); err != nil {
			t.Fatal(err)
		}
		o.NodeChanged(node.Name)
	}
	seen(kit.Node("n1", spec))
	o.PodSeen(kit.Pod("ns", "p", kit.UID("u"), kit.OnNode("n1"), kit.GPUs(1), kit.Annotate("gputopology.io/allocation",
		`{"v":1,"node":"n1","cards":[{"index":6,"uuid":"GPU-n1-6","sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}]}`)))
	if got := l.Node("n1").Free.Len(); got != 7 {
		t.Fatalf("%d cards are free, want 7", got)
	}
	spec.Cards[6].UUID = "GPU-n1-6x"
	seen(kit.Node("n1", spec))
	if got := l.Node("n1").Free.Len(); got != 7 {
		t.Errorf("%d cards are free after card 6 was renamed, want 7", got)
	}
	if len(reports.details) != 1 {
		t.Errorf("reports: %q, want one of the card that is not listed", reports.details)
	}
	seen(kit.Node("n2", spec))
	if len(reports.details) != 9 {
		t.Errorf("%d reports, want eight more of cards that two nodes list", len(reports.details))
	}
}
