package nccltopology

import (
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// need is what the pods of a native group ask for that have no node yet.
type need struct {
	// kinds are the pods that take cards, by what they ask for.
	kinds []kind
	// cards has the whole cards of each of these pods, and of shares the cards that they touch; total is their sum.
	cards map[types.UID]int
	total int
	// without counts the pods that take no cards; least is how many pods of either kind must be placed for the group to run.
	without, least int
	// plain says that all requests are for any whole cards: what does not fit by number of cards does not fit.
	plain bool
}

type kind struct {
	role  placement.Role
	count int
}

// needOf reads the pods. scheduled is how many of the group have a node. A composite group has no pods of its own.
func (p *Plugin) needOf(group fwk.PodGroupInfo, scheduled int) *need {
	n := &need{cards: map[types.UID]int{}, least: 1, plain: true}
	if g := group.GetPodGroup(); g != nil && g.Spec.SchedulingPolicy.Gang != nil {
		n.least = max(1, int(g.Spec.SchedulingPolicy.Gang.MinCount)-scheduled)
	}
	for _, pod := range group.GetUnscheduledPods() {
		asked, err := p.engine.RequestOf(pod)
		if err != nil || asked == nil {
			n.without++ // a request that cannot be read is refused in the pod's own cycle
			continue
		}
		at := slices.IndexFunc(n.kinds, func(k kind) bool { return reflect.DeepEqual(k.role.Request, asked) })
		if at < 0 {
			at = len(n.kinds)
			n.kinds = append(n.kinds, kind{role: placement.Role{Request: asked}})
			n.plain = n.plain && isPlain(asked)
		}
		n.kinds[at].count++
		cards, _ := request.FromPodForeign(pod)
		n.cards[pod.UID] = cards
		n.total += cards
	}
	return n
}

func isPlain(r *allocate.Request) bool {
	_, ok := r.Plain()
	return ok
}

// sum is what the nodes of a set hold together.
type sum struct {
	// held is by kind how many of its pods fit, free how many whole cards are free.
	held []int
	free int
}

// all reports whether the set may hold all pods.
func (n *need) all(s *sum) bool {
	for i, k := range n.kinds {
		if s.held[i] < k.count {
			return false
		}
	}
	return !n.plain || s.free >= n.total
}

// some reports whether the set may hold as many pods as the group needs to run.
func (n *need) some(s *sum) bool {
	if !n.plain {
		return true
	}
	held := n.without
	for i, k := range n.kinds {
		held += min(s.held[i], k.count)
	}
	return held >= n.least
}
