package topologyspread

import (
	"encoding/binary"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
)

// key sums up everything that Read looks at but the nodes: pods with equal keys get equal readings. Every text stands behind
// its length and every list behind its number of entries, so that no two contents have the same key.
func (v *view) key() []byte {
	k := make(keyWriter, 0, 256)
	k.flag(v.allKeys)
	k.text(v.pod.Namespace)
	k.count(len(v.constraints))
	affinity, taints := false, false
	for i := range v.constraints {
		c := &v.constraints[i]
		k.text(c.key)
		k.text(v.selectors[i])
		k.flag(c.honorAffinity)
		k.flag(c.honorTaints)
		k.flag(c.gangs)
		affinity, taints = affinity || c.honorAffinity, taints || c.honorTaints
	}
	if affinity {
		k.affinity(&v.pod.Spec)
	}
	if taints {
		k.tolerations(v.pod.Spec.Tolerations)
	}
	v.cards.write(&k)
	return k
}

type keyWriter []byte

func (k *keyWriter) count(n int) { *k = binary.AppendUvarint(*k, uint64(n)) }

func (k *keyWriter) text(s string) {
	k.count(len(s))
	*k = append(*k, s...)
}

func (k *keyWriter) texts(list []string) {
	k.count(len(list))
	for _, s := range list {
		k.text(s)
	}
}

func (k *keyWriter) flag(on bool) {
	if on {
		*k = append(*k, 1)
	} else {
		*k = append(*k, 0)
	}
}

// affinity writes the node selector and the required node affinity.
func (k *keyWriter) affinity(spec *v1.PodSpec) {
	k.count(len(spec.NodeSelector))
	for _, name := range slices.Sorted(maps.Keys(spec.NodeSelector)) {
		k.text(name)
		k.text(spec.NodeSelector[name])
	}
	var required *v1.NodeSelector
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		required = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	k.flag(required != nil)
	if required == nil {
		return
	}
	k.count(len(required.NodeSelectorTerms))
	for i := range required.NodeSelectorTerms {
		k.requirements(required.NodeSelectorTerms[i].MatchExpressions)
		k.requirements(required.NodeSelectorTerms[i].MatchFields)
	}
}

func (k *keyWriter) requirements(list []v1.NodeSelectorRequirement) {
	k.count(len(list))
	for i := range list {
		k.text(list[i].Key)
		k.text(string(list[i].Operator))
		k.texts(list[i].Values)
	}
}

func (k *keyWriter) tolerations(list []v1.Toleration) {
	k.count(len(list))
	for i := range list {
		k.text(list[i].Key)
		k.text(string(list[i].Operator))
		k.text(list[i].Value)
		k.text(string(list[i].Effect))
	}
}
