package fabric

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/placement"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// ours plans with the planner and keeps who holds what in the ledger, as the scheduler does.
type ours struct {
	site    *site
	planner *placement.Planner
	ledger  *ledger.Ledger
	nodes   []placement.Node
	fabric  *topology.Fabric
	host    map[ledger.NodeName]int
}

func newOurs(t *testing.T, s *site) *ours {
	t.Helper()
	o := &ours{site: s, planner: placement.NewPlanner(allocate.NewChooser()), ledger: ledger.New(), host: map[ledger.NodeName]int{}}
	builder := topology.NewFabricBuilder(topology.DefaultLevels())
	for h, name := range s.hosts {
		builder.SetNode(name, s.labels[h])
	}
	o.fabric = builder.Fabric()
	machine := host(t)
	for h, hostname := range s.hosts {
		name := ledger.NodeName(hostname)
		o.host[name] = h
		o.ledger.SetNode(name, machine)
		position, ok := o.fabric.Position(hostname)
		if !ok {
			t.Fatalf("the fabric lacks %s", hostname)
		}
		o.nodes = append(o.nodes, placement.Node{Name: name, View: &o.ledger.Node(name).View, Roles: 1, Position: position})
	}
	return o
}

func pod(j *job, rank int) ledger.PodUID { return ledger.PodUID(fmt.Sprintf("gang-%d-%d", j.id, rank)) }

func (o *ours) place(j *job, _ []bool) ([]int, error) {
	problem := &placement.Problem{
		Group:  fmt.Sprintf("replay/gang-%d", j.id),
		Roles:  []placement.Role{{Request: &allocate.Request{Claims: []allocate.Claim{{Container: "main", Kind: allocate.KindWhole, Count: 8}}}}},
		Need:   j.size,
		Nodes:  o.nodes,
		Fabric: o.fabric,
	}
	for rank := range j.size {
		problem.Members = append(problem.Members, placement.Member{UID: pod(j, rank), Rank: rank})
	}
	plan, rejection, err := o.planner.Plan(problem)
	if err != nil {
		return nil, err
	}
	if rejection != nil {
		return nil, fmt.Errorf("refused: %s", rejection)
	}
	var hosts []int
	var holdings []ledger.Holding
	for _, a := range plan.Assignments {
		hosts = append(hosts, o.host[a.Node])
		holdings = append(holdings, ledger.Holding{UID: a.Pod, Pod: "replay/" + string(a.Pod), Node: a.Node, Cards: a.Choice.Cards})
	}
	if err := o.ledger.AssumeAll(holdings); err != nil {
		return nil, err
	}
	o.refresh(hosts)
	if got, want := plan.Domains[topology.LevelLeaf], o.site.leavesOf(hosts); got != want {
		return nil, fmt.Errorf("the plan says that it uses %d leaves, it uses %d", got, want)
	}
	if got, want := plan.Ring.Bottleneck, o.site.ringOf(hosts); got != want {
		return nil, fmt.Errorf("the plan says that its ring runs at %v, it runs at %v", got, want)
	}
	if plan.Ring.Crossings != plan.Ring.OptimalCrossings {
		return nil, fmt.Errorf("the ring crosses %v domains, it need only cross %v", plan.Ring.Crossings, plan.Ring.OptimalCrossings)
	}
	return hosts, nil
}

func (o *ours) release(j *job, hosts []int) error {
	for rank := range j.size {
		if !o.ledger.Release(pod(j, rank)) {
			return fmt.Errorf("the ledger does not hold %s", pod(j, rank))
		}
	}
	o.refresh(hosts)
	return nil
}

// refresh takes the state of hosts from the ledger.
func (o *ours) refresh(hosts []int) {
	for _, h := range hosts {
		o.nodes[h].View = &o.ledger.Node(o.nodes[h].Name).View
	}
}

// inTree models kube-scheduler with its default plugins. It takes the pods of a gang one by one:
//
//   - nodes are looked at in a fixed order that begins where the last search ended, until 50 - nodes/125 percent of all
//     (and at least 100) are found feasible (adaptive percentageOfNodesToScore);
//   - the score of a feasible node is NodeResourcesFit (LeastAllocated) plus NodeResourcesBalancedAllocation, both by CPU
//     and memory alone, as in the default configuration. The other default scorers tell nodes without taints,
//     preferences and common owners apart no more than these;
//   - of the nodes with the highest score one is taken at random.
//
// All free hosts are alike, so all tie, and what is left is chance.
type inTree struct {
	rng   *rand.Rand
	order []int
	start int
	// requested is what the pods of each host ask for.
	requested []request
}

// request is CPUs and GiB.
type request struct{ cpu, memory int }

// A host has 128 CPUs and 2 TiB, of which the node's own pods ask for 2 CPUs and 8 GiB; a pod of 8 GPUs asks for 96 CPUs
// and 1.5 TiB. In CPUs and GiB.
const (
	hostCPU, hostMemory = 128, 2048
	podCPU, podMemory   = 96, 1536
)

var own = request{cpu: 2, memory: 8}

func (r request) withPod() request { return request{r.cpu + podCPU, r.memory + podMemory} }

func newInTree(s *site, rng *rand.Rand) *inTree {
	n := len(s.hosts)
	return &inTree{rng: rng, order: rng.Perm(n), requested: slices.Repeat([]request{own}, n)}
}

func (s *inTree) place(j *job, free []bool) ([]int, error) {
	feasible := slices.Clone(free)
	hosts := make([]int, j.size)
	for i := range hosts {
		hosts[i] = s.next(feasible)
		if hosts[i] < 0 {
			return nil, errors.New("no feasible node")
		}
		feasible[hosts[i]] = false
		s.requested[hosts[i]] = s.requested[hosts[i]].withPod()
	}
	return hosts, nil
}

// next takes a node for one pod, -1 if none is feasible.
func (s *inTree) next(feasible []bool) int {
	n := len(s.order)
	want := n
	if n >= 100 {
		want = max(100, n*max(5, 50-n/125)/100)
	}
	best, ties, at := -1, 0, -1
	looked := 0
	for ; looked < n && want > 0; looked++ {
		h := s.order[(s.start+looked)%n]
		if !feasible[h] {
			continue
		}
		want--
		switch score := scoreOf(s.requested[h]); {
		case score > best:
			best, ties, at = score, 1, h
		case score == best:
			// The k-th of equals takes the place with chance 1/k, so all are as likely.
			if ties++; s.rng.IntN(ties) == 0 {
				at = h
			}
		}
	}
	s.start = (s.start + looked) % n
	return at
}

// scoreOf is the score of a node on which so much is requested, for one more pod.
func scoreOf(before request) int {
	after := before.withPod()
	least := ((hostCPU-after.cpu)*100/hostCPU + (hostMemory-after.memory)*100/hostMemory) / 2
	return least + 50 + (50+balanceOf(after)-balanceOf(before))/2
}

// balanceOf is 100 times one less the standard deviation of the parts of CPU and memory in use.
func balanceOf(r request) int {
	return int((1 - math.Abs(float64(r.cpu)/hostCPU-float64(r.memory)/hostMemory)/2) * 100)
}

func (s *inTree) release(_ *job, hosts []int) error {
	for _, h := range hosts {
		s.requested[h] = own
	}
	return nil
}

// random takes any free hosts.
type random struct{ rng *rand.Rand }

func (s *random) place(j *job, free []bool) ([]int, error) {
	var hosts []int
	for _, h := range s.rng.Perm(len(free)) {
		if free[h] && len(hosts) < j.size {
			hosts = append(hosts, h)
		}
	}
	return hosts, nil
}

func (*random) release(*job, []int) error { return nil }
