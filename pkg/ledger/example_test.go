package ledger_test

import (
	"errors"
	"fmt"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// A pod's way through the ledger: Reserve takes a card, Bind succeeds, the pod ends.
func Example() {
	cards := []topology.Card{
		{UUID: "GPU-a", VRAMBytes: 80 << 30, Healthy: true},
		{UUID: "GPU-b", VRAMBytes: 80 << 30, Healthy: true},
	}
	node, err := topology.New(topology.Spec{Cards: cards}, topology.DefaultRates())
	if err != nil {
		fmt.Println(err)
		return
	}
	l := ledger.New()
	l.SetNode("n1", node)

	card := allocate.CardShare{Index: 1, UUID: "GPU-b", SliceMask: allocate.WholeCard, VRAMBytes: 80 << 30, ComputeMilli: allocate.MilliPerCard}
	fmt.Println("reserve:", l.Assume(ledger.Holding{UID: "uid-1", Pod: "team/train", Node: "n1", Cards: []allocate.CardShare{card}}))
	fmt.Println("free:", l.Node("n1").Free)

	err = l.Assume(ledger.Holding{UID: "uid-2", Pod: "team/other", Node: "n1", Cards: []allocate.CardShare{card}})
	var conflict *ledger.ConflictError
	fmt.Println("taken by:", errors.As(err, &conflict), conflict.HeldBy)

	fmt.Println("bound:", l.Confirm("uid-1"))
	fmt.Println("unreserve:", l.Forget("uid-1"))
	fmt.Println("ended:", l.Release("uid-1"))
	fmt.Println("free:", l.Node("n1").Free)
	fmt.Println("check:", l.Check())
	// Output:
	// reserve: <nil>
	// free: {0}
	// taken by: true uid-1
	// bound: true
	// unreserve: false
	// ended: true
	// free: {0,1}
	// check: <nil>
}
