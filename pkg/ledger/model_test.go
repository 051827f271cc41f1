package ledger

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// model is the ledger without any thought for speed: it keeps holdings in maps and works everything out card by card
// and slice by slice each time it is asked.
type model struct {
	// nodes has the known nodes; facts says whether anything is known of their cards.
	nodes    map[NodeName]modelNode
	pods     map[PodUID]modelPod
	released map[PodUID]bool
}

type modelNode struct {
	facts bool
	cards []topology.Card
}

type modelPod struct {
	Holding
	stage Stage
}

func newModel() *model {
	return &model{nodes: map[NodeName]modelNode{}, pods: map[PodUID]modelPod{}, released: map[PodUID]bool{}}
}

// on returns the holdings on a node in ascending order of UID.
func (m *model) on(name NodeName) []Holding {
	var hs []Holding
	for _, p := range m.pods {
		if p.Node == name {
			hs = append(hs, p.Holding)
		}
	}
	slices.SortFunc(hs, func(a, b Holding) int { return strings.Compare(string(a.UID), string(b.UID)) })
	return hs
}

// locate returns the card of a share: its index, or -1 with a word for what became of it.
func (n modelNode) locate(s allocate.CardShare) (int, string) {
	blank := false
	for i, c := range n.cards {
		if s.UUID != "" && c.UUID == s.UUID {
			return i, ""
		}
		blank = blank || c.UUID == ""
	}
	exists := s.Index < len(n.cards)
	switch {
	case exists && (s.UUID == "" || n.cards[s.Index].UUID == ""):
		return s.Index, ""
	case !n.facts || s.UUID != "" && !blank:
		return -1, "gone"
	}
	return -1, "lost"
}

// modelCard is one card and the shares on it.
type modelCard struct {
	topology.Card
	shares []allocate.CardShare
	pods   []string
}

func (c *modelCard) whole() bool {
	return slices.ContainsFunc(c.shares, func(s allocate.CardShare) bool { return s.MIGProfile == "" && s.SliceMask == ^uint64(0) })
}

func (c *modelCard) use() allocate.CardUse {
	var u allocate.CardUse
	for _, s := range c.shares {
		u.SliceMask |= s.SliceMask
		u.Holders++
		if s.MIGProfile == "" && s.SliceMask == ^uint64(0) {
			u.VRAMBytes += c.VRAMBytes
			u.ComputeMilli += 1000
			continue
		}
		u.VRAMBytes += s.VRAMBytes
		u.ComputeMilli += s.ComputeMilli
	}
	return u
}

// has reports whether the card has the share's instance.
func (c *modelCard) has(s allocate.CardShare) bool {
	return c.MIGEnabled && slices.ContainsFunc(c.MIG, func(m topology.MIGInstance) bool {
		want := uint64(0)
		for i := range m.Size {
			want |= 1 << (m.Start + i)
		}
		return m.Profile == s.MIGProfile && want == s.SliceMask
	})
}

// holding returns the sorted names of the pods with a matching share on the card.
func (c *modelCard) holding(match func(allocate.CardShare) bool) string {
	var names []string
	for i, s := range c.shares {
		if match(s) && !slices.Contains(names, c.pods[i]) {
			names = append(names, c.pods[i])
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// conflicts lists what is wrong with the card as "kind pods".
func (c *modelCard) conflicts() []string {
	isMIG := func(s allocate.CardShare) bool { return s.MIGProfile != "" }
	isPart := func(s allocate.CardShare) bool { return s.MIGProfile == "" }
	unfit := func(s allocate.CardShare) bool { return isMIG(s) && c.MIGEnabled && !c.has(s) }
	var out []string
	if names := c.holding(isPart); c.MIGEnabled && names != "" {
		out = append(out, fmt.Sprintln(ConflictModeOn, names))
	}
	if names := c.holding(isMIG); !c.MIGEnabled && names != "" {
		out = append(out, fmt.Sprintln(ConflictModeOff, names))
	}
	if names := c.holding(unfit); names != "" {
		out = append(out, fmt.Sprintln(ConflictInstance, names))
	}
	var slices8 [8]int
	parts, instances := 0, 0
	for _, s := range c.shares {
		if isPart(s) {
			parts++
			continue
		}
		instances++
		for b := range 8 {
			slices8[b] += int(s.SliceMask >> b & 1)
		}
	}
	over := slices.Max(slices8[:]) > 1 || c.whole() && parts+instances > 1
	if u := c.use(); parts > 0 && instances == 0 {
		over = over || u.ComputeMilli > 1000 || !c.whole() && c.VRAMBytes > 0 && u.VRAMBytes > c.VRAMBytes
	}
	if over {
		out = append(out, fmt.Sprintln(ConflictOvercommit, c.holding(func(allocate.CardShare) bool { return true })))
	}
	return out
}

// expectation is what readers must see of a node.
type expectation struct {
	Use                   []allocate.CardUse
	Free, Closed, Foreign topology.GPUSet
	ForeignMIG, Missing   int
	Quarantined           bool
	Conflicts             []string
	Pods                  int
}

// seen is the same, read from a state.
func seen(a *NodeGPUAllocation) expectation {
	e := expectation{
		Use: a.Use, Free: a.Free, Closed: a.Closed, Foreign: a.Foreign, ForeignMIG: len(a.ForeignMIG()),
		Missing: len(a.Missing()), Quarantined: a.Quarantined, Pods: int(a.Pods),
	}
	for _, c := range a.Conflicts() {
		e.Conflicts = append(e.Conflicts, fmt.Sprintln(c.Kind, strings.Join(c.Pods, " ")))
	}
	slices.Sort(e.Conflicts)
	return e
}

// layout puts the shares on their cards and lists those that have none.
func (n modelNode) layout(hs []Holding) (cards []modelCard, lost []string, missing int) {
	for _, c := range n.cards {
		cards = append(cards, modelCard{Card: c})
	}
	for _, h := range hs {
		for _, s := range h.Cards {
			at, why := n.locate(s)
			if at < 0 {
				missing++
				if text := fmt.Sprintln(ConflictLost, h.Pod, s.Index, s.UUID); why == "lost" && !slices.Contains(lost, text) {
					lost = append(lost, text)
				}
				continue
			}
			cards[at].shares, cards[at].pods = append(cards[at].shares, s), append(cards[at].pods, h.Pod)
		}
	}
	return cards, lost, missing
}

// expect works a node's state out.
func (n modelNode) expect(hs []Holding) expectation {
	e := expectation{Use: []allocate.CardUse{}, Pods: len(hs)}
	cards, lost, missing := n.layout(hs)
	e.Missing = missing
	if !n.facts {
		return e
	}
	for _, l := range lost {
		f := strings.Fields(l)
		e.Conflicts = append(e.Conflicts, fmt.Sprintln(ConflictLost, f[1]))
		e.Quarantined = true
	}
	for i := range cards {
		for _, c := range cards[i].conflicts() {
			e.Conflicts = append(e.Conflicts, c)
			if strings.HasPrefix(c, fmt.Sprint(ConflictOvercommit)) {
				e.Quarantined = true
			} else {
				e.Closed |= 1 << i
			}
		}
	}
	n.foreignCards(&e, cards, hs, n.renamed(hs))
	n.foreignInstances(&e, cards, hs)
	for i := range cards {
		e.Use = append(e.Use, cards[i].use())
		if e.Quarantined {
			e.Closed |= 1 << i
		}
	}
	for i, c := range cards {
		if c.Healthy && !c.MIGEnabled && len(c.shares) == 0 && !e.Closed.Has(i) {
			e.Free |= 1 << i
		}
	}
	slices.Sort(e.Conflicts)
	return e
}

// renamed maps the UUIDs that the node does not list at indices that it does to their holders.
func (n modelNode) renamed(hs []Holding) map[string][]string {
	found := map[string][]string{}
	for _, h := range hs {
		for _, s := range h.Cards {
			if at, _ := n.locate(s); at < 0 && s.UUID != "" && s.MIGProfile == "" && s.Index < len(n.cards) {
				found[s.UUID] = append(found[s.UUID], h.Pod)
			}
		}
	}
	return found
}

func (n modelNode) foreignCards(e *expectation, cards []modelCard, hs []Holding, renamed map[string][]string) {
	want, pods := len(renamed), []string{}
	for _, holders := range renamed {
		pods = append(pods, holders...)
	}
	for _, h := range hs {
		if h.UnknownCards > 0 {
			want += h.UnknownCards
			pods = append(pods, h.Pod)
		}
	}
	for _, healthy := range []bool{true, false} {
		for i := len(cards) - 1; i >= 0 && want > 0; i-- {
			if c := cards[i]; c.Healthy == healthy && !c.MIGEnabled && len(c.shares) == 0 {
				e.Foreign |= 1 << i
				want--
			}
		}
	}
	e.Closed |= e.Foreign
	if want > 0 {
		slices.Sort(pods)
		pods = slices.Compact(pods)
		e.Quarantined = true
		e.Conflicts = append(e.Conflicts, fmt.Sprintln(ConflictForeign, strings.Join(pods, " ")))
	}
}

func (n modelNode) foreignInstances(e *expectation, cards []modelCard, hs []Holding) {
	want, pods := map[string]int{}, map[string][]string{}
	for _, h := range hs {
		for _, p := range h.UnknownMIG {
			want[p.Profile] += p.Count
			if !slices.Contains(pods[p.Profile], h.Pod) {
				pods[p.Profile] = append(pods[p.Profile], h.Pod)
			}
		}
	}
	for _, healthy := range []bool{true, false} {
		for i := len(cards) - 1; i >= 0; i-- {
			for j := len(cards[i].MIG) - 1; j >= 0; j-- {
				c, inst := &cards[i], cards[i].MIG[j]
				taken := c.use().SliceMask&inst.SliceMask() != 0
				if !taken && want[inst.Profile] > 0 && c.Healthy == healthy && c.MIGEnabled {
					want[inst.Profile]--
					e.ForeignMIG++
					c.pods = append(c.pods, "foreign")
					c.shares = append(c.shares, allocate.CardShare{SliceMask: inst.SliceMask(), VRAMBytes: inst.VRAMBytes, MIGProfile: inst.Profile})
				}
			}
		}
	}
	for profile, missing := range want {
		if missing > 0 {
			slices.Sort(pods[profile])
			e.Quarantined = true
			e.Conflicts = append(e.Conflicts, fmt.Sprintln(ConflictForeignMIG, strings.Join(pods[profile], " ")))
		}
	}
}

// canAssume reports whether a holding's cards are free beside the holdings on its node.
func (m *model) canAssume(h Holding, hs []Holding) bool {
	n, known := m.nodes[h.Node]
	if !known || !n.facts {
		return false
	}
	e := n.expect(hs)
	for i, s := range h.Cards {
		at, _ := n.locate(s)
		if at < 0 || e.Closed.Has(at) || !n.cards[at].Healthy {
			return false
		}
		c, u := n.cards[at], e.Use[at]
		for _, before := range h.Cards[:i] {
			if b, _ := n.locate(before); b == at {
				u.SliceMask |= before.SliceMask
				u.VRAMBytes += before.VRAMBytes
				u.ComputeMilli += before.ComputeMilli
				u.Holders++
			}
		}
		if bits.OnesCount64(u.SliceMask)+bits.OnesCount64(s.SliceMask) != bits.OnesCount64(u.SliceMask|s.SliceMask) {
			return false
		}
		if s.MIGProfile != "" {
			if !(&modelCard{Card: c}).has(s) {
				return false
			}
			continue
		}
		wholly := s.SliceMask == ^uint64(0)
		switch {
		case c.MIGEnabled, !wholly && c.VRAMBytes == 0,
			u.Holders > 0 && (wholly || s.ComputeMilli == 1000),
			u.VRAMBytes+s.VRAMBytes > c.VRAMBytes,
			u.ComputeMilli+s.ComputeMilli > 1000,
			s.ComputeMilli == 0 && u.ComputeMilli == 1000:
			return false
		}
	}
	return true
}
