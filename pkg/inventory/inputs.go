package inventory

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
)

// The annotations and labels that the sources read, besides labels of MIG profiles. Whatever a source reads must be
// among what inputs collects: TestInputsCoverSources holds the two together.
const (
	annotationTopologyAt = iota
	annotationRegisterAt
	annotationScoreAt
	annotationCordonAt
	annotationVolcanoAt
	annotationCount
)

var (
	annotationKeys = [annotationCount]string{
		annotationTopologyAt: v1alpha1.TopologyAnnotation,
		annotationRegisterAt: annotationHAMiRegister,
		annotationScoreAt:    annotationHAMiScore,
		annotationCordonAt:   annotationCordon,
		annotationVolcanoAt:  annotationVolcanoRegister,
	}
	labelKeys = [...]string{labelProduct, labelCount, labelMemory, labelReplicas}
)

// inputs is all of a node that the sources read.
type inputs struct {
	uid         types.UID
	annotations [annotationCount]text
	labels      [len(labelKeys)]text
	// profiles are the labels of MIG profiles, by key.
	profiles []pair
	// amounts are the capacities and allocatable amounts of GPU resources, by kind and name.
	amounts []amount
	slices  []sliceVersion
}

// text is a string that may be absent.
type text struct {
	value string
	set   bool
}

type pair struct{ key, value string }

type amount struct {
	allocatable bool
	name        v1.ResourceName
	n           int64
	odd         string // the amount's text where it is no whole number
}

// sliceVersion identifies the content of a ResourceSlice: its UID and resourceVersion, or the object where it has
// none.
type sliceVersion struct {
	uid     types.UID
	version string
	object  *resourcev1.ResourceSlice
}

// collect fills in with what node and its slices say, reusing its memory.
func (in *inputs) collect(node *v1.Node, list []*resourcev1.ResourceSlice) {
	in.uid = node.UID
	for i, key := range annotationKeys {
		in.annotations[i].value, in.annotations[i].set = node.Annotations[key]
	}
	for i, key := range labelKeys {
		in.labels[i].value, in.labels[i].set = node.Labels[key]
	}
	in.profiles = in.profiles[:0]
	for key, value := range node.Labels {
		if strings.HasPrefix(key, migPrefix) && (strings.HasSuffix(key, ".count") || strings.HasSuffix(key, ".memory")) {
			in.profiles = append(in.profiles, pair{key, value})
		}
	}
	slices.SortFunc(in.profiles, func(a, b pair) int { return cmp.Compare(a.key, b.key) })
	in.amounts = appendAmounts(appendAmounts(in.amounts[:0], node.Status.Capacity, false), node.Status.Allocatable, true)
	in.slices = in.slices[:0]
	for _, s := range list {
		if s == nil || s.Spec.Driver != draDriver {
			continue
		}
		v := sliceVersion{uid: s.UID, version: s.ResourceVersion}
		if v.version == "" {
			v.object = s
		}
		in.slices = append(in.slices, v)
	}
	slices.SortStableFunc(in.slices, func(a, b sliceVersion) int { return cmp.Compare(a.uid, b.uid) })
}

func appendAmounts(out []amount, list v1.ResourceList, allocatable bool) []amount {
	first := len(out)
	for name, q := range list {
		switch name {
		case resourceGPU, resourceSharedGPU, resourceVolcanoGPU:
		default:
			if !strings.HasPrefix(string(name), migPrefix) {
				continue
			}
		}
		a := amount{allocatable: allocatable, name: name}
		n, whole := q.AsInt64()
		if a.n = n; !whole {
			a.odd = q.String()
		}
		out = append(out, a)
	}
	slices.SortFunc(out[first:], func(a, b amount) int { return cmp.Compare(a.name, b.name) })
	return out
}

func (in *inputs) has(annotation int) bool { return in.annotations[annotation].set }

func (in *inputs) equal(other *inputs) bool {
	return in.uid == other.uid && in.labels == other.labels && in.annotations == other.annotations &&
		slices.Equal(in.amounts, other.amounts) && slices.Equal(in.profiles, other.profiles) &&
		slices.Equal(in.slices, other.slices)
}

// clone returns a copy that later calls of collect do not touch.
func (in *inputs) clone() inputs {
	out := *in
	out.profiles, out.amounts, out.slices = slices.Clone(in.profiles), slices.Clone(in.amounts), slices.Clone(in.slices)
	return out
}

// sharedKey returns a text that is equal for nodes that get equal results, empty for a node that describes cards of
// its own: their UUIDs are nobody else's.
func (in *inputs) sharedKey() string {
	if len(in.slices) > 0 || in.annotations != ([annotationCount]text{}) {
		return ""
	}
	var b []byte
	add := func(s string) { b = append(strconv.AppendQuote(b, s), ' ') }
	for _, l := range in.labels {
		b = strconv.AppendBool(b, l.set)
		add(l.value)
	}
	for _, p := range in.profiles {
		add(p.key)
		add(p.value)
	}
	for _, a := range in.amounts {
		b = strconv.AppendBool(b, a.allocatable)
		add(string(a.name))
		b = strconv.AppendInt(b, a.n, 10)
		add(a.odd)
	}
	return string(b)
}
