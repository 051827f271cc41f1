package ledger

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// wantSteps is how many random operations TestStateMachine runs at least.
const wantSteps = 100_000

// machine drives a ledger and the model through the same operations.
type machine struct {
	l     *Ledger
	m     *model
	steps *int
	// tidy runs keep to what happens in a healthy cluster: cards seldom change, and records claim free cards. The
	// others throw anything at the ledger.
	tidy bool
	// uids are the UIDs in play; a released one is replaced now and then.
	uids  []PodUID
	fresh int
	// last is the generation seen last on each node, of the present ledger.
	last map[NodeName]uint64
	// met counts what the run has come across; it must be all there is.
	met map[string]int
}

// mustMeet is what random operations have to reach for the test to say anything.
func mustMeet() []string {
	names := []string{"assumed", "conflict", "released", "invalid", "all assumed", "plain", "special", "quarantine", "moved", "missing", "foreign instance", "foreign card", "restored"}
	for k := ConflictOvercommit; k <= ConflictInstance; k++ {
		names = append(names, fmt.Sprint("conflict ", k))
	}
	return names
}

var modelNodes = []NodeName{"n0", "n1", "n2"}

func newMachine(steps *int, met map[string]int) *machine {
	m := &machine{l: New(), m: newModel(), steps: steps, met: met, last: map[NodeName]uint64{}}
	for range 10 {
		m.uids = append(m.uids, m.newUID())
	}
	return m
}

func (m *machine) newUID() PodUID {
	m.fresh++
	return PodUID(fmt.Sprintf("p%d", m.fresh))
}

// TestStateMachine runs random operations and compares the ledger with the model after each: what every operation
// answers, and everything that readers see of every node.
func TestStateMachine(t *testing.T) {
	steps, met := 0, map[string]int{}
	for steps < wantSteps && !t.Failed() {
		rapid.Check(t, func(t *rapid.T) { runMachine(t, &steps, met) })
	}
	if steps < wantSteps {
		t.Fatalf("%d steps, want %d", steps, wantSteps)
	}
	t.Logf("%d steps: %v", steps, met)
	for _, name := range mustMeet() {
		if met[name] == 0 {
			t.Errorf("%d steps never met %q", steps, name)
		}
	}
}

func FuzzStateMachine(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) { runMachine(t, new(int), map[string]int{}) }))
}

func runMachine(t *rapid.T, steps *int, met map[string]int) {
	m := newMachine(steps, met)
	m.tidy = rapid.IntRange(0, 3).Draw(t, "tidy") > 0
	for _, name := range modelNodes {
		m.setNode(t, name)
	}
	actions := m.actions()
	names := make([]string, 0, len(actions))
	for name := range actions {
		names = append(names, name)
	}
	slices.Sort(names)
	for range rapid.IntRange(20, 120).Draw(t, "steps") {
		actions[rapid.SampledFrom(names).Draw(t, "action")](t)
		*m.steps++
		m.compare(t)
	}
	m.drain(t)
}

// actions are the operations; those that make a state interesting have more entries.
func (m *machine) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"set node": func(t *rapid.T) { m.setNode(t, drawNode(t)) },
		"forget facts": func(t *rapid.T) {
			name := drawNode(t)
			if m.tidy && rapid.IntRange(0, 4).Draw(t, "often enough") > 0 {
				return
			}
			m.l.SetNode(name, nil)
			m.m.nodes[name] = modelNode{}
		},
		"remove node": func(t *rapid.T) {
			name := drawNode(t)
			m.l.RemoveNode(name)
			delete(m.m.nodes, name)
		},
		"assume": m.assume, "assume again": m.assume, "assume more": m.assume, "assume all": m.assumeAll,
		"confirm": func(t *rapid.T) { m.move(t, m.l.Confirm, StageBound, StageAssumed, StageUnknown, StageBound) },
		"suspect": func(t *rapid.T) { m.move(t, m.l.Suspect, StageUnknown, StageAssumed, StageUnknown) },
		"forget":  func(t *rapid.T) { m.giveBack(t, m.l.Forget, StageAssumed) },
		"refute":  func(t *rapid.T) { m.giveBack(t, m.l.Refute, StageUnknown) },
		"adopt":   m.adopt, "adopt more": m.adopt, "adopt what is held": m.readopt,
		"replace": m.replace, "release": m.release, "restore": m.restore, "restart": m.restart, "dry run": m.dryRun,
		"invalid": m.invalid, "new pod": m.newPod,
	}
}

func drawNode(t *rapid.T) NodeName { return rapid.SampledFrom(modelNodes).Draw(t, "node") }

func (m *machine) drawUID(t *rapid.T) PodUID { return rapid.SampledFrom(m.uids).Draw(t, "uid") }

const unit = int64(100) // bytes of one slice of a card in the tests

func (m *machine) setNode(t *rapid.T, name NodeName) {
	order := rapid.Permutation([]int{0, 1, 2, 3, 4}).Draw(t, "order")
	fewest, worst := 0, 0
	if m.tidy {
		fewest, worst = 4, 2
	}
	cards := []topology.Card{}
	for _, i := range order[:rapid.IntRange(fewest, 5).Draw(t, "cards")] {
		uuid := fmt.Sprintf("%s-%d", name, i)
		if m.tidy && i == 4 { // always the same card, so that its instances stay
			cards = append(cards, drawCard(t, uuid, 3, 3))
			continue
		}
		cards = append(cards, drawCard(t, uuid, worst, 11))
	}
	node, err := topology.New(topology.Spec{Cards: cards}, topology.DefaultRates())
	if err != nil {
		t.Fatal(err)
	}
	m.l.SetNode(name, node)
	m.m.nodes[name] = modelNode{facts: true, cards: cards}
}

// drawCard draws one of the kinds of card from first to last; the higher half are healthy ones without MIG.
func drawCard(t *rapid.T, uuid string, first, last int) topology.Card {
	c := topology.Card{UUID: uuid, VRAMBytes: 64 * unit, Healthy: true}
	switch rapid.IntRange(first, last).Draw(t, "card") {
	case 0:
		c.UUID = ""
	case 1:
		c.VRAMBytes = 0
	case 2:
		c.Healthy = false
	case 3:
		c.MIGEnabled = true
		for j := range 7 {
			c.MIG = append(c.MIG, topology.MIGInstance{Profile: "1g", Start: j, Size: 1, VRAMBytes: 8 * unit})
		}
	case 4:
		c.MIGEnabled = true
		c.MIG = []topology.MIGInstance{
			{Profile: "3g", Start: 0, Size: 4}, {Profile: "2g", Start: 4, Size: 2}, {Profile: "1g", Start: 6, Size: 1},
		}
	}
	return c
}

// drawHolding draws cards of a node: mostly such as a choice might make, sometimes stale or senseless ones.
func (m *machine) drawHolding(t *rapid.T, uid PodUID) Holding {
	h := Holding{UID: uid, Pod: "ns/" + string(uid), Node: drawNode(t)}
	n := m.m.nodes[h.Node]
	cards, _, _ := n.layout(m.m.on(h.Node))
	var free []int
	for i, u := range n.expect(m.m.on(h.Node)).Use {
		if u.Holders == 0 || u.SliceMask != allocate.WholeCard {
			free = append(free, i)
		}
	}
	for range rapid.IntRange(1, 3).Draw(t, "shares") {
		chance := rapid.IntRange(0, 9).Draw(t, "kind of card")
		switch {
		case len(cards) == 0 || chance == 0 && !m.tidy:
			h.Cards = append(h.Cards, drawStale(t, h.Node))
		case len(free) == 0 || chance == 1:
			i := rapid.IntRange(0, len(cards)-1).Draw(t, "any card")
			h.Cards = append(h.Cards, cards[i].drawShare(t, i))
		default:
			at := rapid.IntRange(0, len(free)-1).Draw(t, "card")
			h.Cards = append(h.Cards, cards[free[at]].drawShare(t, free[at]))
			free = slices.Delete(free, at, at+1)
		}
		if len(free) == 0 {
			break
		}
	}
	return h
}

// drawStale draws a share of a card that may not exist.
func drawStale(t *rapid.T, node NodeName) allocate.CardShare {
	s := allocate.CardShare{Index: rapid.IntRange(0, 6).Draw(t, "index"), SliceMask: allocate.WholeCard, ComputeMilli: 1000}
	if rapid.Bool().Draw(t, "has UUID") {
		s.UUID = fmt.Sprintf("%s-%d", node, rapid.IntRange(0, 6).Draw(t, "uuid"))
	}
	switch rapid.IntRange(0, 3).Draw(t, "kind") {
	case 0:
		s.SliceMask, s.MIGProfile = rapid.Uint64Range(1, 255).Draw(t, "mask"), rapid.SampledFrom([]string{"1g", "2g", "7g"}).Draw(t, "profile")
	case 1:
		s.SliceMask, s.VRAMBytes = rapid.Uint64().Draw(t, "mask")&^1, 1+rapid.Int64Range(0, 80*unit).Draw(t, "bytes")
	}
	return s
}

func (c *modelCard) drawShare(t *rapid.T, i int) allocate.CardShare {
	s := allocate.CardShare{Index: i, UUID: c.UUID, SliceMask: allocate.WholeCard, VRAMBytes: c.VRAMBytes, ComputeMilli: 1000}
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
	case len(c.MIG) > 0 && kind > 0:
		in := c.MIG[rapid.IntRange(0, len(c.MIG)-1).Draw(t, "instance")]
		return allocate.CardShare{Index: i, UUID: c.UUID, SliceMask: in.SliceMask(), VRAMBytes: in.VRAMBytes, MIGProfile: in.Profile}
	case kind > 1:
		s.VRAMBytes = rapid.Int64Range(1, 40*unit).Draw(t, "bytes")
		s.ComputeMilli = rapid.SampledFrom([]int32{0, 0, 250, 500, 1000}).Draw(t, "milli")
		s.SliceMask = 0
		used := c.use().SliceMask
		for want, b := s.VRAMBytes/unit, 0; want > 0 && b < 64; b++ {
			if used>>b&1 == 0 {
				s.SliceMask |= 1 << b
				want--
			}
		}
	}
	return s
}

func (m *machine) assume(t *rapid.T) {
	h := m.drawHolding(t, m.drawUID(t))
	m.verdict(t, m.l.Assume(h), []Holding{h})
}

func (m *machine) assumeAll(t *rapid.T) {
	var hs []Holding
	for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
		uid := m.drawUID(t)
		if i == 0 || rapid.Bool().Draw(t, "fresh") {
			uid = m.newUID()
			m.uids[rapid.IntRange(0, len(m.uids)-1).Draw(t, "slot")] = uid
		}
		hs = append(hs, m.drawHolding(t, uid))
	}
	m.verdict(t, m.l.AssumeAll(hs), hs)
}

// verdict checks what Assume or AssumeAll returned, and records it in the model.
func (m *machine) verdict(t *rapid.T, err error, hs []Holding) {
	want := ""
	taken := map[PodUID]modelPod{}
	twice := map[PodUID]bool{}
	for _, h := range hs {
		if twice[h.UID] {
			want = "invalid"
		}
		twice[h.UID] = true
	}
	for _, h := range hs {
		if want != "" {
			break
		}
		p, holds := m.m.pods[h.UID]
		beside := m.m.on(h.Node)
		for _, other := range taken {
			if other.Node == h.Node {
				beside = append(beside, other.Holding)
			}
		}
		switch {
		case holds && p.equal(&h):
			continue
		case holds:
			want = "conflict"
		case m.m.released[h.UID]:
			want = "released"
		case !m.m.canAssume(h, beside):
			want = "conflict"
		}
		taken[h.UID] = modelPod{Holding: h, stage: StageAssumed}
	}
	m.met[stdcmp.Or(want, "assumed")]++
	if want == "" && len(taken) > 1 {
		m.met["all assumed"]++
	}
	if got := errorKind(err); got != want {
		t.Fatalf("got %q (%v), want %q for %+v", got, err, want, hs)
	}
	if want == "" {
		for uid, p := range taken {
			m.m.pods[uid] = p
		}
	}
}

func errorKind(err error) string {
	var conflict *ConflictError
	var invalid *InvalidError
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrReleased):
		return "released"
	case errors.As(err, &conflict):
		return "conflict"
	case errors.As(err, &invalid):
		return "invalid"
	}
	return err.Error()
}

func (m *machine) move(t *rapid.T, op func(PodUID) bool, to Stage, from ...Stage) {
	uid := m.drawUID(t)
	p, holds := m.m.pods[uid]
	want := holds && slices.Contains(from, p.stage)
	if got := op(uid); got != want {
		t.Fatalf("%s in stage %s: got %t, want %t", uid, p.stage, got, want)
	}
	if want {
		p.stage = to
		m.m.pods[uid] = p
	}
}

func (m *machine) giveBack(t *rapid.T, op func(PodUID) bool, from Stage) {
	uid := m.drawUID(t)
	p, holds := m.m.pods[uid]
	want := holds && p.stage == from
	if got := op(uid); got != want {
		t.Fatalf("%s in stage %s: got %t, want %t", uid, p.stage, got, want)
	}
	if want {
		delete(m.m.pods, uid)
	}
}

// drawAdopted draws what a record or a foreign pod may say.
func (m *machine) drawAdopted(t *rapid.T, uid PodUID) Holding {
	h := m.drawHolding(t, uid)
	if m.tidy && rapid.IntRange(0, 9).Draw(t, "foreign") > 0 {
		return h
	}
	switch rapid.IntRange(0, 5).Draw(t, "foreign") {
	case 0:
		h.Cards, h.UnknownCards = nil, rapid.IntRange(1, 3).Draw(t, "unknown cards")
	case 1:
		h.UnknownMIG = []ProfileCount{{rapid.SampledFrom([]string{"1g", "2g"}).Draw(t, "profile"), rapid.IntRange(1, 3).Draw(t, "count")}}
	}
	return h
}

func (m *machine) adopt(t *rapid.T) {
	h := m.drawAdopted(t, m.drawUID(t))
	if m.tidy && !m.m.canAssume(h, m.m.on(h.Node)) {
		return
	}
	m.adopted(t, h, m.l.Adopt)
}

// readopt delivers again what a pod holds.
func (m *machine) readopt(t *rapid.T) {
	uid := m.drawUID(t)
	if p, ok := m.m.pods[uid]; ok {
		m.adopted(t, p.clone(), m.l.Adopt)
	}
}

func (m *machine) adopted(t *rapid.T, h Holding, op func(Holding) error) {
	err := op(h)
	if m.m.released[h.UID] {
		if !errors.Is(err, ErrReleased) {
			t.Fatalf("adopting a released pod: %v", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := m.m.pods[h.UID]; ok && p.Node != h.Node {
		m.met["moved"]++
	}
	m.m.pods[h.UID] = modelPod{Holding: h, stage: StageBound}
}

func (m *machine) replace(t *rapid.T) {
	old, h := m.drawUID(t), m.drawAdopted(t, m.drawUID(t))
	if m.tidy && !m.m.canAssume(h, m.m.on(h.Node)) {
		return
	}
	if old != h.UID {
		m.m.released[old] = true
		delete(m.m.pods, old)
	}
	m.adopted(t, h, func(h Holding) error { return m.l.Replace(old, h) })
}

func (m *machine) release(t *rapid.T) {
	uid := m.drawUID(t)
	_, want := m.m.pods[uid]
	if got := m.l.Release(uid); got != want {
		t.Fatalf("Release(%s): got %t, want %t", uid, got, want)
	}
	m.m.released[uid] = true
	delete(m.m.pods, uid)
}

// restore brings back a pod that was taken for gone, or adopts one that was not.
func (m *machine) restore(t *rapid.T) {
	h := m.drawAdopted(t, m.drawUID(t))
	if m.tidy && !m.m.canAssume(h, m.m.on(h.Node)) {
		return
	}
	if m.m.released[h.UID] {
		m.met["restored"]++
	}
	delete(m.m.released, h.UID)
	m.adopted(t, h, m.l.Restore)
}

// newPod puts a new UID in the place of a released one.
func (m *machine) newPod(*rapid.T) {
	for i, uid := range m.uids {
		if m.m.released[uid] {
			m.uids[i] = m.newUID()
			return
		}
	}
}

// invalid offers a holding that cannot be true.
func (m *machine) invalid(t *rapid.T) {
	h := m.drawHolding(t, m.drawUID(t))
	switch rapid.IntRange(0, 4).Draw(t, "fault") {
	case 0:
		h.Cards = nil
	case 1:
		h.Cards[0].VRAMBytes = -1
	case 2:
		h.Cards[0].Index = topology.MaxCards
	case 3:
		h.UnknownCards = -1
	case 4:
		h.Cards[0].ComputeMilli = 1001
	}
	for _, err := range []error{m.l.Assume(h), m.l.Adopt(h), m.l.Restore(h), m.l.Replace(m.drawUID(t), h), m.l.AssumeAll([]Holding{h})} {
		if errorKind(err) != "invalid" {
			t.Fatalf("got %v for %+v", err, h)
		}
	}
}

// restart builds the ledger again from nodes and bound pods, in random order.
func (m *machine) restart(t *rapid.T) {
	next := New()
	var events []func() error
	for _, name := range modelNodes {
		if n, known := m.m.nodes[name]; known {
			var topo *topology.Node
			if n.facts {
				topo = m.l.Node(name).Topology
			}
			events = append(events, func() error { next.SetNode(name, topo); return nil })
		}
	}
	for _, uid := range m.l.Pods() {
		p := m.m.pods[uid]
		if p.stage != StageBound {
			delete(m.m.pods, uid)
			continue
		}
		events = append(events, func() error { return next.Adopt(p.Holding) })
	}
	for _, i := range rapid.Permutation(indices(len(events))).Draw(t, "order") {
		if err := events[i](); err != nil {
			t.Fatal(err)
		}
	}
	m.l, m.m.released, m.last = next, map[PodUID]bool{}, map[NodeName]uint64{}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// dryRun takes pods out of a state and puts them in again.
func (m *machine) dryRun(t *rapid.T) {
	name := drawNode(t)
	a := m.l.Node(name)
	if a == nil {
		return
	}
	var out, rest []Holding
	for _, h := range m.m.on(name) {
		if rapid.Bool().Draw(t, "out") {
			out = append(out, h)
		} else {
			rest = append(rest, h)
		}
	}
	less, err := a.Without(out...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.m.nodes[name].expect(rest), seen(less)); diff != "" {
		t.Fatalf("without %d pods (-want +got):\n%s", len(out), diff)
	}
	again, err := less.With(out...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seen(a), seen(again)); diff != "" {
		t.Fatalf("put back (-want +got):\n%s", diff)
	}
	stranger := Holding{UID: "stranger", Pod: "ns/stranger", Node: name, UnknownCards: 1}
	more, err := less.With(stranger)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m.m.nodes[name].expect(append(rest, stranger)), seen(more)); diff != "" {
		t.Fatalf("with a stranger (-want +got):\n%s", diff)
	}
	if err := errors.Join(less.check(), again.check(), more.check()); err != nil {
		t.Fatal(err)
	}
}

// compare checks all that readers can see against the model.
func (m *machine) compare(t *rapid.T) {
	if err := m.l.Check(); err != nil {
		t.Fatal(err)
	}
	var stats Stats
	for uid, p := range m.m.pods {
		h, stage, ok := m.l.Holding(uid)
		if !ok || stage != p.stage || !h.equal(&p.Holding) || h.Pod != p.Pod {
			t.Fatalf("pod %s: got %+v, %s, want %+v, %s", uid, h, stage, p.Holding, p.stage)
		}
		switch p.stage {
		case StageAssumed:
			stats.Assumed++
		case StageUnknown:
			stats.Unknown++
		case StageBound:
			stats.Bound++
		}
	}
	stats.Tombstones = len(m.m.released)
	if got := m.l.Stats(); got != stats {
		t.Fatalf("stats %+v, want %+v", got, stats)
	}
	for _, name := range modelNodes {
		m.compareNode(t, name)
	}
}

func (m *machine) compareNode(t *rapid.T, name NodeName) {
	a := m.l.Node(name)
	n, known := m.m.nodes[name]
	if known != (a != nil) {
		t.Fatalf("node %s: known is %t, want %t", name, a != nil, known)
	}
	if a == nil {
		return
	}
	if a.Generation < m.last[name] {
		t.Fatalf("node %s: generation %d after %d", name, a.Generation, m.last[name])
	}
	m.last[name] = a.Generation
	m.meet(a)
	if want, got := n.expect(m.m.on(name)), seen(a); !reflect.DeepEqual(want, got) {
		t.Fatalf("node %s (-want +got):\n%s", name, cmp.Diff(want, got))
	}
}

func (m *machine) meet(a *NodeGPUAllocation) {
	for what, is := range map[string]bool{
		"plain": a.special == nil && a.Pods > 0, "special": a.special != nil, "quarantine": a.Quarantined,
		"missing": len(a.Missing()) > 0, "foreign instance": len(a.ForeignMIG()) > 0, "foreign card": a.Foreign != 0,
	} {
		if is {
			m.met[what]++
		}
	}
	for _, c := range a.Conflicts() {
		m.met[fmt.Sprint("conflict ", c.Kind)]++
	}
}

// drain ends all pods: everything must be free.
func (m *machine) drain(t *rapid.T) {
	for _, uid := range m.l.Pods() {
		m.l.Release(uid)
		delete(m.m.pods, uid)
		m.m.released[uid] = true
	}
	m.compare(t)
	for _, name := range modelNodes {
		if a := m.l.Node(name); a != nil && a.Topology != nil && (a.held() != 0 || a.Closed != 0 || a.Free != wholes(a.Topology)) {
			t.Fatalf("node %s leaks: free %s, use %+v", name, a.Free, a.Use)
		}
		m.l.RemoveNode(name)
	}
	if entries := m.l.nodes.names(); len(entries) != 0 {
		t.Fatalf("entries of nodes that are gone: %v", entries)
	}
}
