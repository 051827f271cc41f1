package book

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// GroupKey names a PodGroup. What a gang has done is kept by its UID: a new object of the same name starts afresh.
type GroupKey struct{ Namespace, Name string }

// String returns namespace/name.
func (k GroupKey) String() string { return k.Namespace + "/" + k.Name }

// WaitingPod is a pod that waits at Permit.
type WaitingPod interface {
	Allow(plugin string)
	Reject(plugin, reason string) bool
}

// Host is what the book needs of the scheduler around it. WaitingPod must not call back or take the queue's lock; the
// others are called without any lock held.
type Host interface {
	// WaitingPod returns the pod if it waits at Permit, else nil.
	WaitingPod(uid types.UID) WaitingPod
	// Activate moves pods, by namespace/name, to the active queue.
	Activate(pods map[string]*v1.Pod)
	// Evict asks the eviction API for the pod's end. It blocks on the API server.
	Evict(ctx context.Context, pod *v1.Pod, reason string) error
	// Report is a warning event about a pod or PodGroup. It does not block.
	Report(regarding Object, reason, action, detail string)
}

// Settings are the arguments of the plugin that the book depends on.
type Settings struct {
	Gang gang.Config
	// TurnAfter failed plans give a gang a turn, 0 never; TurnTimeout ends it.
	TurnAfter   int
	TurnTimeout time.Duration
	// External leaves phase and counts of PodGroups to somebody else.
	External bool
	// Fabric returns the tree of network domains, nil where nobody keeps one. It may be called with the book's lock held.
	Fabric func() *topology.Fabric
	// Freed is called when cards of members that had not been reserved come free: the scheduler's queue hears nothing of them.
	// It is called with the book's lock held, and must not block. Nil for nobody.
	Freed func()
}

// Planned is what a plan gave a member. It is immutable.
type Planned struct {
	Node ledger.NodeName
	// Choice is the set of cards, empty for a member without GPUs. Topology is the graph that it was chosen on.
	Choice   allocate.Choice
	Topology *topology.Node
	// Gang is the group, Rank the member's rank or -1, ID the plan's name.
	Gang GroupKey
	Rank int
	ID   string
}

// Book is safe for concurrent use.
type Book struct {
	ledger *ledger.Ledger
	clock  clock.WithTicker

	// ours says which schedulerNames are profiles of this process; it only grows.
	ours sync.Map
	// withheld is the turn as pods outside the gang see it.
	withheld atomic.Pointer[Withheld]
	// kick wakes Run, evict RunEvictions.
	kick, evict chan struct{}

	// queue guards orders. Nothing else is locked while it is held.
	queue  sync.RWMutex
	orders map[GroupKey]groupOrder

	// mu guards what follows. The ledger's mutex is taken while it is held; see the package's notes on locks.
	mu       sync.Mutex
	host     Host
	settings Settings
	pods     corelisters.PodLister
	logger   klog.Logger
	writer   StatusWriter
	groups   map[GroupKey]*group
	members  map[ledger.PodUID]*member
	// placed lists the members that are planned or bound, by node.
	placed map[ledger.NodeName]map[ledger.PodUID]*member
	// coming are the members that are planned and have not been reserved.
	coming map[ledger.PodUID]*member
	lost   map[ledger.NodeName]bool
	// gone are the lost nodes that are deleted, the latest last.
	gone []ledger.NodeName
	due  map[*group]time.Time
	// soonest is no later than any of due, zero while none is known: the loop does not look through all gangs each time.
	soonest time.Time
	dirty   map[*group]bool
	// later are groups whose status has to be looked at again at a time.
	later map[*group]time.Time
	// unsettled are verdicts for pods that were not found waiting at Permit: they may be about to.
	unsettled map[ledger.PodUID]verdict
	vanished  map[ledger.PodUID]time.Time
	// cured are the gangs that something may help, noted since curedAt, foremost the one of the highest priority among those of
	// them that are ready, nil if none is; curedAll says that all that wait are among them. They are told together in rounds,
	// counted from 1.
	cured    map[*group]bool
	curedAll bool
	curedAt  time.Time
	foremost *group
	round    uint64
	// barred are the pods, by namespace/name, that were refused because of the turn.
	barred    map[string]*v1.Pod
	evictions map[ledger.PodUID]eviction
	outbox    outbox
	plans     uint64
}

// StatusWriter takes what a PodGroup's status should be. It must not block.
type StatusWriter interface {
	Set(podgroup.Desired)
	Forget(uid gang.GroupUID)
}

// group is one PodGroup name: its object, where there is one, and the pods that name it.
type group struct {
	key   GroupKey
	known bool
	facts podgroup.Group
	// state is nil where the group is no gang: unknown, invalid, or of members that go alone.
	state   *gang.State
	members map[ledger.PodUID]*member
	// followers are the members that wait for their lead.
	followers map[ledger.PodUID]following
	// started is when the first member was reserved, nil if none was.
	started *time.Time
	// reason is why the gang waits, since when it is that.
	reason string
	since  time.Time
	// layout is where the members are, written anew once moved is true and the gang runs.
	layout string
	moved  bool
	// failed is when the last plan failed, fails how many have in a row, turnless how many had when a turn ended in vain.
	failed          time.Time
	fails, turnless int
	// yielded is the round of cures before which the gang let others go first, 0 once it was planned after that.
	yielded uint64
}

// member is a pod of a group.
type member struct {
	group    *group
	pod      *v1.Pod
	sighting gang.Sighting
	plan     *Planned
	// given is the rank that the last plan gave the member, -1 for none.
	given int
	// node is where placed lists the member, "" if nowhere.
	node ledger.NodeName
}

func (m *member) uid() ledger.PodUID { return m.sighting.UID }

// rank is the member's own, else the one that its plan gave it; -1 if it has none.
func (m *member) rank() int {
	if m.sighting.Rank >= 0 {
		return m.sighting.Rank
	}
	return m.given
}

// New returns an empty book. It does nothing until Start.
func New(l *ledger.Ledger, c clock.WithTicker) *Book {
	return &Book{
		ledger: l, clock: c, kick: make(chan struct{}, 1), evict: make(chan struct{}, 1), evictions: map[ledger.PodUID]eviction{},
		orders: map[GroupKey]groupOrder{}, groups: map[GroupKey]*group{}, members: map[ledger.PodUID]*member{},
		placed: map[ledger.NodeName]map[ledger.PodUID]*member{}, lost: map[ledger.NodeName]bool{}, coming: map[ledger.PodUID]*member{},
		due: map[*group]time.Time{}, dirty: map[*group]bool{}, later: map[*group]time.Time{}, unsettled: map[ledger.PodUID]verdict{},
		vanished: map[ledger.PodUID]time.Time{}, outbox: newOutbox(), barred: map[string]*v1.Pod{},
		cured: map[*group]bool{}, round: 1,
	}
}

// Serve says that pods of this schedulerName are ours. It is called before the informers start.
func (b *Book) Serve(schedulerName string) { b.ours.Store(schedulerName, true) }

// Start gives the book its surroundings, before the informers start.
func (b *Book) Start(h Host, s Settings, pods corelisters.PodLister, logger klog.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.host, b.settings, b.pods, b.logger = h, s, pods, logger
}

// WriteStatus has the status of PodGroups written from now on: this replica schedules.
func (b *Book) WriteStatus(w StatusWriter) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.writer = w
	for _, g := range b.groups {
		b.dirty[g] = true
	}
	b.wake()
}

// group returns the group of that name, a new one if there is none.
func (b *Book) group(key GroupKey) *group {
	g := b.groups[key]
	if g == nil {
		g = &group{key: key, members: map[ledger.PodUID]*member{}}
		b.groups[key] = g
	}
	return g
}

// tidy drops a group that nobody speaks of any more.
func (b *Book) tidy(g *group) {
	if g.known || len(g.members) > 0 {
		return
	}
	delete(b.groups, g.key)
	delete(b.due, g)
	delete(b.dirty, g)
	delete(b.later, g)
	delete(b.cured, g) // and foremost is another one since the end of the gang was noted (changed)
	if b.writer != nil {
		b.writer.Forget(absentUID(g.key))
	}
	b.setOrder(g.key, nil)
}

// wake has the loop look at what there is to do.
func (b *Book) wake() {
	select {
	case b.kick <- struct{}{}:
	default:
	}
}
