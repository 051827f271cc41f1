package inventory

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

const (
	resourceGPU = v1.ResourceName("nvidia.com/gpu")
	// resourceSharedGPU replaces resourceGPU where time slicing or MPS is told to rename it.
	resourceSharedGPU  = v1.ResourceName("nvidia.com/gpu.shared")
	resourceVolcanoGPU = v1.ResourceName("volcano.sh/vgpu-number")
	// annotationCordon lists the UUIDs of cards that an operator closed to new pods.
	annotationCordon = "hami.io/device-cordon"
)

// closeCards adds what others than the node's source say against its cards; it reports whether that closed any.
// Every such signal can close a card and none can open one.
func (in *input) closeCards(spec *topology.Spec, res *Result, r *report) bool {
	in.readCordon(spec.Cards, r)
	closed := false
	for i := range spec.Cards {
		c := &spec.Cards[i]
		if reason, ok := in.sick[c.UUID]; ok && c.UUID != "" && c.Healthy {
			closeCard(c, reason)
			closed = true
		}
	}
	usable := 0
	for i := range spec.Cards {
		if c := res.Topology.Card(i); c.Healthy && spec.Cards[i].Healthy && !c.MIGEnabled {
			usable++
		}
	}
	return in.compareKubelet(spec.Cards, usable, res, r) || closed
}

// readCordon marks the cards that hami.io/device-cordon names. A name that is no card of this node is ignored: a card
// may be cordoned and then pulled.
func (in *input) readCordon(cards []topology.Card, r *report) {
	value := in.annotation(annotationCordon)
	named := false
	for uuid := range strings.SplitSeq(value, ",") {
		if uuid = strings.TrimSpace(uuid); uuid != "" {
			named = true
			in.markSick(uuid, "cordoned by "+annotationCordon)
		}
	}
	if !named {
		return
	}
	for i := range cards {
		if cards[i].UUID != "" {
			return
		}
	}
	r.add(annotationCordon, value, "the source in use knows no UUIDs, so that no card can be told to be the cordoned one")
}

// compareKubelet sets res.Allocatable and closes the cards that are not in MIG mode where the kubelet offers none; it
// reports whether it closed any. usable is the number of cards that could be given out whole.
func (in *input) compareKubelet(cards []topology.Card, usable int, res *Result, r *report) bool {
	name := resourceGPU
	if res.Source == SourceVolcano {
		name = resourceVolcanoGPU
	}
	if in.claims && res.Source != SourceVolcano {
		return false
	}
	offered, ok := in.offered(name, r)
	if !ok {
		return false
	}
	field := statusField(name)
	if offered == 0 {
		res.Allocatable = 0
		return in.closeUnoffered(cards, field, name, r)
	}
	if in.shares {
		return false
	}
	whole := offered / in.replicas()
	res.Allocatable = int(min(whole, topology.MaxCards))
	if whole < int64(usable) {
		r.add(field, strconv.FormatInt(offered, 10), fmt.Sprintf(
			"the kubelet offers %d of %d usable cards, and nothing says which it withholds", whole, usable))
	}
	return false
}

// closeUnoffered closes every card that is not in MIG mode; those in MIG mode are offered under other names.
func (in *input) closeUnoffered(cards []topology.Card, field string, name v1.ResourceName, r *report) bool {
	whole, closed := 0, false
	for i := range cards {
		if !cards[i].MIGEnabled && cards[i].Fault != faultUnlisted {
			whole++
		}
	}
	for i := range cards {
		if c := &cards[i]; c.Healthy && !c.MIGEnabled {
			closeCard(c, fmt.Sprintf("kubelet offers 0 of %d %s", whole, name))
			closed = true
		}
	}
	if closed {
		r.add(field, "0", fmt.Sprintf("the kubelet offers none of %d cards: closed to new pods", whole))
	}
	return closed
}

func statusField(name v1.ResourceName) string { return "status.allocatable[" + string(name) + "]" }

// offered reads the allocatable amount of a resource; false if the node has no such resource. An amount that is no
// count (negative, a fraction, beyond int64) is reported and taken for 0.
func (in *input) offered(name v1.ResourceName, r *report) (int64, bool) {
	q, ok := in.node.Status.Allocatable[name]
	if !ok {
		return 0, false
	}
	n, whole := q.AsInt64()
	if !whole || n < 0 {
		r.add(statusField(name), q.String(), "is not a count: taken for 0")
		return 0, true
	}
	return n, true
}

// replicas is the number of times that time slicing or MPS advertises each card, 1 without it.
func (in *input) replicas() int64 {
	n, err := strconv.ParseInt(in.label(labelReplicas), 10, 32)
	if err != nil || n < 1 {
		return 1
	}
	return n
}
