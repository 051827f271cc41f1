package record

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// dialect writes what one node agent reads.
type dialect struct {
	// byUUID says that the agent knows cards by UUID and memory size.
	byUUID bool
	name   string
	// initContainers and mig say whether the format has room for them.
	initContainers, mig bool
	write               func(*writing) error
}

var dialects = [...]dialect{
	{name: v1alpha1.DialectHAMi, initContainers: true, mig: true, byUUID: true, write: writeHAMi},
	{name: v1alpha1.DialectVolcano, byUUID: true, write: writeVolcano},
	{name: v1alpha1.DialectKoordinator, initContainers: true, write: writeKoordinator},
}

func find(name string) (*dialect, error) {
	for i := range dialects {
		if dialects[i].name == name {
			return &dialects[i], nil
		}
	}
	return nil, &DialectError{Dialect: name, Reason: "unknown; known are " + strings.Join(v1alpha1.Dialects(), ", ")}
}

// Options are the parts of the annotations that do not follow from the choice of cards.
type Options struct {
	// Dialects are the dialects to write beside the record.
	Dialects []string
	// Now is the time of binding, which some dialects carry.
	Now time.Time
	// Topology is the node's graph. It is needed only where a dialect says what part of a card a share is; without it
	// that is left out.
	Topology *topology.Node
	// Gang, Rank and Plan go into the record; see v1alpha1.Record.
	Gang string
	Rank *int32
	Plan string
	// Recent is given the record, to keep; nil for nobody.
	Recent *Recent
}

// Build returns the record of a choice for a pod that is bound to the node. Which container uses what is recorded where
// more than one container claims.
func Build(nodeName string, choice allocate.Choice, o Options) *v1alpha1.Record {
	r := &v1alpha1.Record{
		V: v1alpha1.Version, Node: nodeName, Cards: cards(choice.Cards), Gang: o.Gang, Rank: o.Rank, Plan: o.Plan,
	}
	if len(choice.Containers) > 1 {
		for _, c := range choice.Containers {
			r.Containers = append(r.Containers, v1alpha1.ContainerRecord{Name: c.Name, Cards: cards(c.Cards)})
		}
	}
	return r
}

func cards(held []allocate.CardShare) []v1alpha1.CardRecord {
	out := make([]v1alpha1.CardRecord, len(held))
	for i, s := range held {
		out[i] = v1alpha1.CardRecord{
			Index: s.Index, UUID: s.UUID, SliceMask: v1alpha1.SliceMask(s.SliceMask),
			VRAMBytes: s.VRAMBytes, ComputeMilli: s.ComputeMilli, MIG: s.MIGProfile,
		}
	}
	return out
}

// Annotations returns all annotations of the Binding of a pod to the node: the record and the keys of every dialect. The
// pod is the one that the choice was made for; only its containers are read. Errors are *v1alpha1.FieldError for a choice
// that cannot be recorded, which is a bug, and *DialectError.
func Annotations(pod *v1.Pod, nodeName string, choice allocate.Choice, o Options) (map[string]string, error) {
	r := Build(nodeName, choice, o)
	value, err := r.Format()
	if err != nil {
		return nil, err
	}
	o.Recent.wrote(value, r)
	w := &writing{pod: pod, node: nodeName, choice: &choice, options: &o, out: map[string]string{v1alpha1.AllocationAnnotation: value}}
	for _, name := range o.Dialects {
		if w.dialect, err = find(name); err != nil {
			return nil, err
		}
		if err := w.check(); err != nil {
			return nil, err
		}
		if err := w.dialect.write(w); err != nil {
			return nil, err
		}
	}
	return w.out, nil
}

// Check returns a *DialectError if a pod with this request cannot be written in one of the dialects, whatever node and
// cards it gets.
func Check(r *allocate.Request, names []string) error {
	for _, name := range names {
		d, err := find(name)
		if err != nil {
			return err
		}
		for i := range r.Claims {
			c := &r.Claims[i]
			if err := d.allows(c.Container, c.Phase != allocate.PhaseMain, c.Kind == allocate.KindMIG); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *dialect) allows(container string, inits, mig bool) error {
	switch {
	case inits && !d.initContainers:
		return &DialectError{Dialect: d.name, Reason: "its agent serves app containers only, and init container " + quote(container) + " asks for a GPU"}
	case mig && !d.mig:
		return &DialectError{Dialect: d.name, Reason: "it cannot name the MIG instances that container " + quote(container) + " asks for"}
	}
	return nil
}
