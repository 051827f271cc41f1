package main

import (
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
)

const (
	// leafLabel and spineLabel are the keys of topograph v0.3 to v0.5.
	leafLabel  = "network.topology.nvidia.com/leaf"
	spineLabel = "network.topology.nvidia.com/spine"
	// nodesPerLeaf and leavesPerSpine are the fabric of all sizes; the last leaf may have fewer nodes.
	nodesPerLeaf   = 16
	leavesPerSpine = 8

	podPrefix = "worker-"
)

// place is the part of the fabric that a node is in.
type place struct{ leaf, spine string }

// placeOf returns the place of node i: neighbours by number share a leaf, which neighbours by name do not.
func placeOf(i int) place {
	leaf := i / nodesPerLeaf
	return place{leaf: fmt.Sprintf("leaf-%03d", leaf), spine: fmt.Sprintf("spine-%02d", leaf/leavesPerSpine)}
}

// put labels a node with the place.
func (p place) put(node *v1.Node) {
	node.Labels[leafLabel], node.Labels[spineLabel] = p.leaf, p.spine
}

// Spread is over how many parts of the fabric a gang is spread, as the mean over all gangs; 0 is not known.
type Spread struct {
	Leaves float64 `json:"leavesPerGang,omitempty"`
	Spines float64 `json:"spinesPerGang,omitempty"`
}

// spreadOf reads where the pods of every gang are. It knows a pod's gang by the pod's number, so that pods which name none
// count as the same gangs do.
func spreadOf(s *size, pods []v1.Pod, places map[string]place) (Spread, error) {
	leaves, spines := make([]map[string]bool, s.Gangs), make([]map[string]bool, s.Gangs)
	for i := range s.Gangs {
		leaves[i], spines[i] = map[string]bool{}, map[string]bool{}
	}
	for i := range pods {
		pod := &pods[i]
		number, err := strconv.Atoi(strings.TrimPrefix(pod.Name, podPrefix))
		if err != nil || number < 0 || number >= s.pods() {
			return Spread{}, fmt.Errorf("pod %.64q: its name must be %s0 to %s%d", pod.Name, podPrefix, podPrefix, s.pods()-1)
		}
		p, ok := places[pod.Spec.NodeName]
		if !ok {
			return Spread{}, fmt.Errorf("pod %s is on node %.64q, which is in no leaf", pod.Name, pod.Spec.NodeName)
		}
		gang := number / s.Members
		leaves[gang][p.leaf], spines[gang][p.spine] = true, true
	}
	return Spread{Leaves: mean(leaves), Spines: mean(spines)}, nil
}

func mean(sets []map[string]bool) float64 {
	sum := 0
	for _, set := range sets {
		sum += len(set)
	}
	return quotient(float64(sum), float64(len(sets)))
}

// least is the spread that a gang has at best, alone on empty nodes.
func (s *size) least() Spread {
	up := func(a, b int) int { return (a + b - 1) / b }
	leaves := up(up(s.Members, machine.Count/s.GPUs), nodesPerLeaf)
	return Spread{Leaves: float64(leaves), Spines: float64(up(leaves, leavesPerSpine))}
}
