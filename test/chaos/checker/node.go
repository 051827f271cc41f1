package checker

import (
	"encoding/json"
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// NodeCard is a card that a node lists.
type NodeCard struct {
	UUID      string
	VRAMBytes int64
	Healthy   bool
}

// Node is what the checker reads of a node.
type Node struct {
	Name string
	// Cards are in the order of their indices.
	Cards []NodeCard
	// Offered is the number of whole cards that the kubelet offers.
	Offered int
	// Open is false while the node takes no new pods.
	Open bool
}

// card finds a card by UUID.
func (n *Node) card(uuid string) (NodeCard, bool) {
	for _, c := range n.Cards {
		if c.UUID == uuid {
			return c, true
		}
	}
	return NodeCard{}, false
}

// FromNode reads a node. The error says that its description cannot be read.
func FromNode(node *v1.Node) (Node, error) {
	n := Node{Name: node.Name, Open: !node.Spec.Unschedulable && node.DeletionTimestamp == nil}
	for _, taint := range node.Spec.Taints {
		n.Open = n.Open && taint.Effect == v1.TaintEffectPreferNoSchedule
	}
	if q, ok := node.Status.Allocatable[gpuResource]; ok {
		n.Offered = int(q.Value())
	}
	text, ok := node.Annotations[topologyKey]
	if !ok {
		return n, nil
	}
	var described struct {
		Cards []struct {
			UUID      string `json:"uuid"`
			VRAMBytes int64  `json:"vramBytes"`
			Healthy   *bool  `json:"healthy"`
		} `json:"cards"`
	}
	if err := json.Unmarshal([]byte(text), &described); err != nil {
		return n, fmt.Errorf("node %s: annotation %s: %w", node.Name, topologyKey, err)
	}
	for _, c := range described.Cards {
		healthy := c.Healthy == nil || *c.Healthy
		n.Cards = append(n.Cards, NodeCard{UUID: c.UUID, VRAMBytes: c.VRAMBytes, Healthy: healthy})
	}
	return n, nil
}
