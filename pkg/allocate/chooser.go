package allocate

import (
	"sync"
	"sync/atomic"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// cacheBytes bounds the memory that one Chooser keeps for all shapes together, 64 MiB. A shape of 8 cards takes at most
// 79 KiB of it, one of 16 cards 724 KiB, one of 64 cards 116 KiB. When a new shape does not fit, the oldest ones go;
// they are computed anew when they are asked for again.
const cacheBytes = 64 << 20

// Chooser chooses cards. It remembers answers by machine shape; the answers themselves depend on nothing but the
// arguments. Build it with NewChooser; it is safe for concurrent use, and a known answer is read without a lock.
type Chooser struct {
	// tables is replaced as a whole, never changed.
	tables atomic.Pointer[map[[32]byte]*table]

	// mu guards what follows and the replacing of tables.
	mu sync.Mutex
	// ages are the fingerprints in tables, oldest first; bytes is what their tables may come to hold.
	ages  [][32]byte
	bytes int64
}

// NewChooser returns a Chooser that knows no shape yet.
func NewChooser() *Chooser {
	c := &Chooser{}
	c.tables.Store(&map[[32]byte]*table{})
	return c
}

// Choose returns the best choice for the request on the node, or why there is none. An error is an *InputError:
// a request that cannot be or a view that contradicts itself. A request without claims gets an empty choice.
//
// The choice passes View.CanHold; neither argument is changed. See the package documentation for the order of
// preference.
func (c *Chooser) Choose(v *View, r *Request) (Choice, *Rejection, error) {
	if err := checkInput(v, r); err != nil {
		return Choice{}, nil, err
	}
	if len(r.Claims) == 0 {
		return Choice{}, nil, nil
	}
	if v.Topology == nil {
		return Choice{}, unknownGPUs(r), nil
	}
	t := c.table(v.Topology.Shape())
	need, wholeOnly := r.wholeCards()
	if wholeOnly {
		choice, rej := t.chooseWhole(v, r, need)
		return choice, t.finish(v, r, rej), nil
	}
	p, rej := t.plan(v, r, need)
	if rej != nil {
		return Choice{}, t.finish(v, r, rej), nil
	}
	return p.choice(), nil, nil
}

// Fits says why Choose would reject the request on this node; nil if it would not. It is the cheap half of Choose:
// for a request of whole cards, of one share or of MIG instances of one container it only counts and does not
// allocate unless it rejects. Broken input is a Rejection here, with ReasonInvalid.
func (c *Chooser) Fits(v *View, r *Request) *Rejection {
	if err := checkInput(v, r); err != nil {
		return &Rejection{Reason: ReasonInvalid, Err: err, Permanent: true}
	}
	if len(r.Claims) == 0 {
		return nil
	}
	if v.Topology == nil {
		return unknownGPUs(r)
	}
	t := c.table(v.Topology.Shape())
	return t.finish(v, r, t.fits(v, r))
}

// Assess returns the Quality that Choose would give the request on this node, or why there is none, and the cards.
// For whole cards it does not allocate; it is meant for scoring many nodes.
func (c *Chooser) Assess(v *View, r *Request) (topology.GPUSet, Quality, *Rejection, error) {
	if err := checkInput(v, r); err != nil {
		return 0, Quality{}, nil, err
	}
	if len(r.Claims) == 0 {
		return 0, Quality{}, nil, nil
	}
	if v.Topology == nil {
		return 0, Quality{}, unknownGPUs(r), nil
	}
	t := c.table(v.Topology.Shape())
	need, wholeOnly := r.wholeCards()
	if !wholeOnly {
		p, rej := t.plan(v, r, need)
		if rej != nil {
			return 0, Quality{}, t.finish(v, r, rej), nil
		}
		return p.cards(), p.quality(), nil, nil
	}
	set, ok := t.best(v.Free, need, r.NUMA, r.NIC)
	if !ok {
		return 0, Quality{}, t.finish(v, r, t.rejectWhole(v, r, need)), nil
	}
	return set, t.quality(v.Free, set, r.NUMA, r.NIC), nil, nil
}

// QualityOf measures a set of the node's cards as if it were taken whole, whoever holds it now: its ring, pairs, NUMA
// nodes and near adapters, and what the free cards outside it still offer. Cards that the node does not have do not
// count; a view without topology has the zero Quality.
func (c *Chooser) QualityOf(v *View, set topology.GPUSet) Quality {
	if v.Topology == nil {
		return Quality{}
	}
	all := v.Topology.All()
	return c.table(v.Topology.Shape()).quality(v.Free&all, set&all, NUMAPrefer, NICPrefer)
}

func checkInput(v *View, r *Request) error {
	if err := r.check(); err != nil {
		return err
	}
	return v.Check()
}

func unknownGPUs(r *Request) *Rejection {
	return &Rejection{Reason: ReasonUnknownGPUs, NUMA: r.NUMA, NIC: r.NIC, Permanent: true}
}

// fits is Fits on checked input, without Rejection.Permanent.
func (t *table) fits(v *View, r *Request) *Rejection {
	need, wholeOnly := r.wholeCards()
	switch {
	case wholeOnly:
		return t.fitsWhole(v, r, need)
	case len(r.Claims) == 1:
		return t.fitsSingle(v, r)
	}
	_, rej := t.plan(v, r, need)
	return rej
}

// finish fills in whether the rejection, if there is one, would stand on the node without pods.
func (t *table) finish(v *View, r *Request, rej *Rejection) *Rejection {
	if rej != nil {
		empty := &View{Topology: v.Topology, Use: make([]CardUse, v.Topology.Len())}
		empty.Free = FreeCards(empty.Topology, empty.Use, empty.Closed)
		rej.Permanent = t.fits(empty, r) != nil
	}
	return rej
}

// table returns the shape's table, built.
func (c *Chooser) table(s *topology.Shape) *table {
	key := s.Fingerprint()
	t := (*c.tables.Load())[key]
	if t == nil {
		t = c.add(key, s)
	}
	t.once.Do(t.build)
	return t
}

// add enters a table for the shape, not yet built, and drops the oldest ones beyond cacheBytes.
func (c *Chooser) add(key [32]byte, s *topology.Shape) *table {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := *c.tables.Load()
	if t := old[key]; t != nil {
		return t
	}
	c.bytes += tableBytes(s.Len())
	dropped := 0
	for c.bytes > cacheBytes && dropped < len(c.ages) {
		c.bytes -= tableBytes(old[c.ages[dropped]].shape.Len())
		dropped++
	}
	next := make(map[[32]byte]*table, len(old)+1-dropped)
	for _, k := range c.ages[dropped:] {
		next[k] = old[k]
	}
	t := &table{shape: s}
	next[key] = t
	c.ages = append(append(make([][32]byte, 0, len(next)), c.ages[dropped:]...), key)
	c.tables.Store(&next)
	return t
}
