package checker

import (
	"encoding/json"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The keys that the checker reads, spelled out once more: a wrong constant of the scheduler must not be the checker's too.
const (
	recordKey    = "gputopology.io/allocation"
	topologyKey  = "gputopology.io/topology"
	vramCardsKey = "gputopology.io/vram-cards"
	groupKey     = "scheduling.x-k8s.io/pod-group"
	vramResource = v1.ResourceName("gputopology.io/vram")
	gpuResource  = v1.ResourceName("nvidia.com/gpu")
)

// wholeMask is the slice mask of a whole card, wholeMilli its compute.
const (
	wholeMask  = ^uint64(0)
	wholeMilli = 1000
)

// Card is what a pod holds of one card.
type Card struct {
	Index int
	UUID  string
	// Mask has a bit for each of the card's 64 slices of memory.
	Mask         uint64
	VRAMBytes    int64
	ComputeMilli int
}

// Pod is what the checker reads of a pod.
type Pod struct {
	UID string
	// Name is namespace/name.
	Name string
	// Node is empty until the pod is bound.
	Node string
	// Group is namespace/name of its PodGroup, empty for a pod of no gang.
	Group string
	// Ended is true once it has succeeded or failed, Succeeded in the first case only.
	Ended, Succeeded bool
	// Terminating is true once it is being deleted.
	Terminating bool
	// Cards is the number of cards that it asks for, 0 for a pod without GPUs; VRAMBytes is the memory that it wants of each,
	// 0 for whole cards.
	Cards     int
	VRAMBytes int64
	// Record is the text of its allocation record, HasRecord whether there is one.
	Record    string
	HasRecord bool
}

// Live reports whether the pod holds its cards.
func (p *Pod) Live() bool { return p.Node != "" && !p.Ended }

// Waiting reports whether the pod is still to be bound.
func (p *Pod) Waiting() bool { return p.Node == "" && !p.Ended && !p.Terminating }

// FromPod reads a pod.
func FromPod(pod *v1.Pod) Pod {
	p := Pod{
		UID:         string(pod.UID),
		Name:        pod.Namespace + "/" + pod.Name,
		Node:        pod.Spec.NodeName,
		Succeeded:   pod.Status.Phase == v1.PodSucceeded,
		Ended:       pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed,
		Terminating: pod.DeletionTimestamp != nil,
	}
	if group := pod.Labels[groupKey]; group != "" {
		p.Group = pod.Namespace + "/" + group
	}
	p.Record, p.HasRecord = pod.Annotations[recordKey]
	for i := range pod.Spec.Containers {
		requests := pod.Spec.Containers[i].Resources.Requests
		if n := amount(requests, gpuResource); n > 0 {
			p.Cards += int(n)
		}
		if n := amount(requests, vramResource); n > 0 {
			p.VRAMBytes = n
			p.Cards += vramCards(pod)
		}
	}
	return p
}

func amount(list v1.ResourceList, name v1.ResourceName) int64 {
	q, ok := list[name]
	if !ok {
		q = resource.Quantity{}
	}
	return q.Value()
}

// vramCards is 1 unless the pod says otherwise.
func vramCards(pod *v1.Pod) int {
	if n, err := strconv.Atoi(pod.Annotations[vramCardsKey]); err == nil {
		return n
	}
	return 1
}

// record is the wire format of an allocation record.
type record struct {
	Version int          `json:"v"`
	Node    string       `json:"node"`
	Cards   []cardRecord `json:"cards"`
}

type cardRecord struct {
	Index        int    `json:"index"`
	UUID         string `json:"uuid"`
	SliceMask    string `json:"sliceMask"`
	VRAMBytes    int64  `json:"vramBytes"`
	ComputeMilli int    `json:"computeMilli"`
}

func (c cardRecord) card() (Card, error) {
	mask, err := strconv.ParseUint(c.SliceMask, 0, 64)
	if err != nil {
		return Card{}, fmt.Errorf("sliceMask: %w", err)
	}
	return Card{Index: c.Index, UUID: c.UUID, Mask: mask, VRAMBytes: c.VRAMBytes, ComputeMilli: c.ComputeMilli}, nil
}

func readRecord(text string) (record, []Card, error) {
	var r record
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return record{}, nil, err
	}
	if r.Version != 1 {
		return record{}, nil, fmt.Errorf("v is %d", r.Version)
	}
	cards := make([]Card, len(r.Cards))
	for i, c := range r.Cards {
		card, err := c.card()
		if err != nil {
			return record{}, nil, fmt.Errorf("cards[%d]: %w", i, err)
		}
		cards[i] = card
	}
	return r, cards, nil
}

// overlap says why two holds on one card cannot both be, "" if they can.
func overlap(a, b Card) string {
	if a.Mask&b.Mask != 0 {
		return fmt.Sprintf("slices %#x", a.Mask&b.Mask)
	}
	return ""
}
