package topologyspread

import (
	"fmt"
	"maps"

	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/spread"
)

const (
	filterKey fwk.StateKey = Name + "/filter"
	scoreKey  fwk.StateKey = Name + "/score"
)

// filterState is what Filter knows of one cycle. Dry runs change a clone of it.
type filterState struct {
	constraints []constraint
	// trials has an entry for each constraint.
	trials   []spread.Trial
	affinity nodeaffinity.RequiredNodeAffinity
	cards    *cards
	// own is the name of the pod's gang, "" for none. It is not in the trials of constraints that count gangs.
	own string
	// moved is by how many pods of other gangs a dry run has changed what a domain holds.
	moved map[gangPlace]int
}

// gangPlace is a gang in a domain of a constraint.
type gangPlace struct {
	constraint   int
	domain, gang string
}

// Clone returns a state that changes apart from this one. It copies what a dry run has changed so far, never the counts.
func (s *filterState) Clone() fwk.StateData {
	c := *s
	c.trials = make([]spread.Trial, len(s.trials))
	for i := range s.trials {
		c.trials[i] = s.trials[i].Clone()
	}
	c.moved = maps.Clone(s.moved)
	return &c
}

// scoreState is what Score knows of one cycle. It never changes.
type scoreState struct{ scores *spread.Scores }

// Clone returns the same state.
func (s *scoreState) Clone() fwk.StateData { return s }

// stateOf reads a state that an earlier step of the cycle must have written.
func stateOf[T fwk.StateData](state fwk.CycleState, key fwk.StateKey) (T, error) {
	var none T
	data, err := state.Read(key)
	if err != nil {
		return none, fmt.Errorf("reading %q from cycleState: %w", key, err)
	}
	s, ok := data.(T)
	if !ok {
		return none, fmt.Errorf("%q in cycleState is a %T, want %T", key, data, none)
	}
	return s, nil
}
