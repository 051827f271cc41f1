package inventory

import (
	"reflect"
	"time"

	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// The names of the sources, as Result.Source and Problem.Source carry them.
const (
	// SourceAnnotation is this project's own annotation, gputopology.io/topology.
	SourceAnnotation = "annotation"
	// SourceDRA is the ResourceSlices of NVIDIA's DRA driver.
	SourceDRA = "dra"
	// SourceHAMi is what HAMi's node agent writes: hami.io/node-nvidia-register and hami.io/node-nvidia-score.
	SourceHAMi = "hami"
	// SourceVolcano is what Volcano's vGPU device plugin writes: volcano.sh/node-vgpu-register.
	SourceVolcano = "volcano"
	// SourceGFD is the labels of NVIDIA GPU Feature Discovery and the catalogue of machine shapes.
	SourceGFD = "gfd"
	// SourceAllocatable is the counts in the node's status alone.
	SourceAllocatable = "allocatable"
	// SourceKubelet is not a source of cards: problems carry it where the node's status contradicts the source in
	// use.
	SourceKubelet = "kubelet"
)

// Options are the inputs of Resolve that do not come from the API. The zero value means default rates and no
// limit on the age of an annotation.
type Options struct {
	// Rates turn links into bandwidths; the zero value means topology.DefaultRates.
	Rates topology.Rates
	// Now is the time to judge ages by. It is read only where MaxAge is set and the node's annotation carries
	// observedAt.
	Now time.Time
	// MaxAge is the age at which an annotation with observedAt is stale: the node's cards are then closed to new
	// pods, and stay listed. 0 means never. It has to exceed the period at which the annotation is renewed plus the
	// difference of the clocks; 15 minutes suit an agent that writes every minute.
	MaxAge time.Duration
}

func (o Options) rates() topology.Rates {
	if reflect.ValueOf(o.Rates).IsZero() {
		return topology.DefaultRates()
	}
	return o.Rates
}

// Result is what is known of one node's cards. Topology may be shared with the results of other nodes.
type Result struct {
	// Topology is the node's graph; nil if no source names a card. The node then takes no GPU pod.
	Topology *topology.Node
	// Source is the source that Topology was taken from, empty without one.
	Source string
	// Problems are the faults met, in the order of the sources and then of their place in the source.
	Problems []Problem
	// Allocatable is the number of whole cards that the kubelet still offers (allocatable nvidia.com/gpu, divided by the
	// replicas of time slicing), -1 where that is not known or does not count cards (HAMi and Volcano count shares, a
	// DRA driver offers no such resource). At 0 all cards that are not in MIG mode are closed in Topology. A number
	// between 0 and that of the usable cards is reported as a Problem: nobody knows which card is sick. The scheduler's
	// NodeResourcesFit holds requests for nvidia.com/gpu to it; nothing holds shares of cards to it.
	Allocatable int
	// Until is the moment from which the result is no longer right though nothing on the node changed, because an
	// annotation turns stale; the zero time if there is none.
	Until time.Time
}

// input is all that the sources may read, and what they tell each other.
type input struct {
	node   *v1.Node
	slices []*resourcev1.ResourceSlice
	now    time.Time
	maxAge time.Duration

	// until is Result.Until.
	until time.Time
	// sick holds the cards that any source calls unhealthy, by UUID, with the reason to show.
	sick map[string]string
	// shares is true where nvidia.com/gpu counts shares of cards rather than cards.
	shares bool
	// claims is true where a DRA driver offers the cards, so that nvidia.com/gpu says nothing of them.
	claims bool
}

func (in *input) annotation(key string) string { return in.node.Annotations[key] }
func (in *input) label(key string) string      { return in.node.Labels[key] }

// markSick remembers an unhealthy card, so that it is closed whichever source describes the node.
func (in *input) markSick(uuid, reason string) {
	if uuid == "" {
		return
	}
	if in.sick == nil {
		in.sick = make(map[string]string)
	}
	if _, ok := in.sick[uuid]; !ok {
		in.sick[uuid] = reason
	}
}

// source is one way to learn a node's cards.
type source struct {
	name string
	// read returns the cards; false if the source says nothing of this node, or nothing that can be used: what is
	// wrong is then in the report.
	read func(*input, *report) (topology.Spec, bool)
	// live sources know the health of cards by UUID. They are read for it even where a better source described the
	// node.
	live bool
}

// sources stand from best to weakest; the first that answers describes the node.
var sources = []source{
	{name: SourceAnnotation, read: readAnnotation},
	{name: SourceDRA, read: readDRA, live: true},
	{name: SourceHAMi, read: readHAMi, live: true},
	{name: SourceVolcano, read: readVolcano, live: true},
	{name: SourceGFD, read: readGFD},
	{name: SourceAllocatable, read: readAllocatable},
}

// Resolve finds out a node's cards. slices are the ResourceSlices of the node, in any order; others are ignored. It
// neither changes nor keeps its arguments, and is safe for concurrent use. The result depends on nothing else: same
// arguments, same result.
func Resolve(node *v1.Node, slices []*resourcev1.ResourceSlice, o Options) Result {
	in := &input{node: node, slices: slices, now: o.Now, maxAge: o.MaxAge}
	rates := o.rates()
	res := Result{Allocatable: -1}
	var spec topology.Spec
	for _, s := range sources {
		if res.Topology != nil && !s.live {
			continue
		}
		r := &report{source: s.name}
		if found, ok := s.read(in, r); ok && res.Topology == nil {
			found.Source = s.name
			if n, err := topology.New(found, rates); err != nil {
				r.fail("cards", "", err)
			} else {
				res.Topology, res.Source, spec = n, s.name, found
				reportFaults(n, found, r)
			}
		}
		res.Problems = append(res.Problems, r.all()...)
	}
	res.Until = in.until
	if res.Topology == nil {
		return res
	}
	r := &report{source: SourceKubelet}
	if in.closeCards(&spec, &res, r) {
		n, err := topology.New(spec, rates)
		if err != nil { // the cards passed before, and closing one cannot make them wrong
			r.fail("cards", "", err)
		}
		res.Topology = n
	}
	res.Problems = append(res.Problems, r.all()...)
	return res
}

// reportFaults reports the cards that topology.New closed. Faults that the source set are the source's to report.
func reportFaults(n *topology.Node, spec topology.Spec, r *report) {
	for i := range n.Len() {
		if c := n.Card(i); c.Fault != "" && spec.Cards[i].Fault == "" {
			r.add(cardField(i), c.UUID, "card is closed: "+c.Fault)
		}
	}
}
