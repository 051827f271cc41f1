package placement

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// check returns an *InputError where the problem cannot be.
func (p *Problem) check(known *facts) error {
	switch {
	case p.Need < 1:
		return &InputError{Field: "need", Value: strconv.Itoa(p.Need), Reason: "must be 1 or more"}
	case p.Need > len(p.Members):
		return &InputError{Field: "need", Value: strconv.Itoa(p.Need), Reason: fmt.Sprintf("there are %d members", len(p.Members))}
	case len(p.Roles) < 1 || len(p.Roles) > MaxRoles:
		return &InputError{Field: "roles", Value: strconv.Itoa(len(p.Roles)), Reason: fmt.Sprintf("must be 1 to %d", MaxRoles)}
	}
	for i := range p.Roles {
		if err := p.checkRole(i); err != nil {
			return err
		}
	}
	if err := p.checkMembers(); err != nil {
		return err
	}
	for i := range p.Nodes {
		if err := p.checkNode(i, known); err != nil {
			return err
		}
	}
	return p.checkFabric()
}

// checkFabric checks what concerns domains.
func (p *Problem) checkFabric() error {
	for i := range p.Placed {
		if err := p.checkPlaced(i); err != nil {
			return err
		}
	}
	if p.Rates != (FabricRates{}) {
		if err := p.Rates.Validate(); err != nil {
			return err
		}
	}
	if p.Fabric == nil {
		return nil
	}
	levels := [...]struct {
		field string
		level topology.Level
	}{{"required", p.Required}, {"ceiling", p.Ceiling}, {"slice.level", p.Slice.Level}}
	for _, l := range levels {
		if l.level > topology.LevelCluster {
			return &InputError{Field: l.field, Value: l.level.String(), Reason: "there is no such level"}
		}
	}
	for i := range p.Roles {
		if l := p.Roles[i].Required; l > topology.LevelCluster {
			return &InputError{Field: fmt.Sprintf("roles[%d].required", i), Value: l.String(), Reason: "there is no such level"}
		}
	}
	if p.Slice.Size < 0 {
		return &InputError{Field: "slice.size", Value: strconv.Itoa(p.Slice.Size), Reason: "must not be negative"}
	}
	return nil
}

func (p *Problem) checkPlaced(i int) error {
	m, field := &p.Placed[i], "placed["+strconv.Itoa(i)+"]"
	switch {
	case m.Node == "":
		return &InputError{Field: field + ".node", Reason: "a node has a name"}
	case m.Role < -1 || m.Role >= len(p.Roles):
		return &InputError{Field: field + ".role", Value: strconv.Itoa(m.Role), Reason: fmt.Sprintf("there are %d roles", len(p.Roles))}
	case m.Rank < -1:
		return &InputError{Field: field + ".rank", Value: strconv.Itoa(m.Rank), Reason: "must be 0 or more, or -1 if unknown"}
	case p.Fabric != nil && m.Position != -1 && p.Fabric.Name(m.Position) != string(m.Node):
		return &InputError{Field: field + ".position", Value: strconv.Itoa(m.Position), Reason: "must be the node's own position in the fabric, or -1"}
	}
	return nil
}

func (p *Problem) checkRole(i int) error {
	r, field := &p.Roles[i], "roles["+strconv.Itoa(i)+"]"
	if len(r.Needs) != len(p.Resources) {
		return &InputError{Field: field + ".needs", Value: strconv.Itoa(len(r.Needs)), Reason: fmt.Sprintf("there are %d resources", len(p.Resources))}
	}
	for k, need := range r.Needs {
		if need < 0 {
			return &InputError{Field: fmt.Sprintf("%s.needs[%d]", field, k), Value: strconv.FormatInt(need, 10), Reason: "must not be negative"}
		}
	}
	if r.Request != nil {
		return inField(field+".request", r.Request.Validate())
	}
	return nil
}

// inField says in which field of the problem package allocate found a fault; nil for nil.
func inField(field string, err error) error {
	var in *allocate.InputError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &in):
		return &InputError{Field: field + "." + in.Field, Value: in.Value, Reason: in.Reason, Err: err}
	}
	return &InputError{Field: field, Reason: err.Error(), Err: err}
}

func (p *Problem) checkMembers() error {
	seen := make(map[ledger.PodUID]struct{}, len(p.Members))
	for i := range p.Members {
		m := &p.Members[i]
		if _, twice := seen[m.UID]; twice || m.UID == "" {
			return &InputError{Field: fmt.Sprintf("members[%d].uid", i), Value: string(m.UID), Reason: "a member has a UID of its own"}
		}
		seen[m.UID] = struct{}{}
		if m.Role < 0 || m.Role >= len(p.Roles) {
			return &InputError{Field: fmt.Sprintf("members[%d].role", i), Value: strconv.Itoa(m.Role), Reason: fmt.Sprintf("there are %d roles", len(p.Roles))}
		}
		if m.Rank < -1 {
			return &InputError{Field: fmt.Sprintf("members[%d].rank", i), Value: strconv.Itoa(m.Rank), Reason: "must be 0 or more, or -1 if unknown"}
		}
	}
	return nil
}

func (p *Problem) checkNode(i int, known *facts) error {
	n := &p.Nodes[i]
	if n.Name == "" {
		return &InputError{Field: fmt.Sprintf("nodes[%d].name", i), Reason: "a node has a name"}
	}
	if len(n.Free) != len(p.Resources) || n.Total != nil && len(n.Total) != len(p.Resources) {
		return n.fault(i, "free", strconv.Itoa(len(n.Free)), fmt.Sprintf("there are %d resources", len(p.Resources)))
	}
	for _, total := range n.Total {
		if total < 0 {
			return n.fault(i, "total", strconv.FormatInt(total, 10), "must not be negative")
		}
	}
	for _, bar := range n.Bars {
		if int(bar) > len(p.Bars) {
			return n.fault(i, "bars", strconv.Itoa(int(bar)), fmt.Sprintf("there are %d bars", len(p.Bars)))
		}
	}
	if n.View == nil || known.sound(i, n.View) {
		return nil
	}
	if err := n.View.Check(); err != nil {
		return inField(fmt.Sprintf("nodes[%d] (%.64s).view", i, n.Name), err)
	}
	return nil
}

func (n *Node) fault(i int, field, value, reason string) error {
	return &InputError{Field: fmt.Sprintf("nodes[%d] (%.64s).%s", i, n.Name, field), Value: value, Reason: reason}
}
