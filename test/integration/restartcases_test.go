package integration

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/controlplane/process"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/observe"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/test/checkout"
)

// boundEntries are the holdings of bound pods.
func (r *replica) boundEntries() map[ledger.PodUID]ledger.Holding {
	out := map[ledger.PodUID]ledger.Holding{}
	l := r.engine.Ledger()
	for _, uid := range l.Pods() {
		if held, stage, ok := l.Holding(uid); ok && stage == ledger.StageBound {
			out[uid] = held
		}
	}
	return out
}

// TestCaseB086StandbyTakesOver: one replica binds a hundred pods, half of which are deleted, while another one only watches.
// The first stops in the middle of a bind. Before the second one binds anything its ledger is the first one's, without what
// the first had reserved and not bound, and without a record that stands on a pod that is not bound. Then a gang of exactly
// what is free runs.
func TestCaseB086StandbyTakesOver(t *testing.T) {
	const all, share, slots = 100, 5120, 8 * 16 // sixteen shares fill a card
	c := startGangCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	arrived, lead := make(chan struct{}, 1), make(chan struct{})
	first := startReplica(t, c.config, replicaOptions{wrap: answering(func(r *http.Request) int {
		if !isBind("halfway")(r) {
			return 0
		}
		arrived <- struct{}{}
		<-r.Context().Done()
		return http.StatusServiceUnavailable
	})})
	second := startReplica(t, c.config, replicaOptions{lead: lead})
	pods, bound := podsOf("p", all, kit.VRAM(share, 1))
	c.createPods(t, pods...)
	c.waitBound(t, bound...)
	for i, name := range bound {
		if i%2 == 0 {
			c.deletePods(t, name)
		}
	}
	c.check(t, first)
	c.createPods(t, kit.Pod(namespace, "halfway", kit.VRAM(share, 1)))
	c.createPods(t, kit.Pod(namespace, "copied", kit.VRAM(share, 1), gated,
		kit.Annotate(v1alpha1.AllocationAnnotation, c.pod(t, bound[1]).Annotations[v1alpha1.AllocationAnnotation])))
	waitFor(t, "the Binding of halfway is sent", arrived)
	halfway := ledger.PodUID(c.pod(t, "halfway").UID)
	if _, stage, held := first.engine.Ledger().Holding(halfway); !held || stage != ledger.StageAssumed {
		t.Fatalf("halfway is held: %t, stage %v; the test shows nothing", held, stage)
	}
	want := first.boundEntries()
	first.stop()

	if len(want) != all/2 {
		t.Fatalf("the first ledger has %d bound pods, want %d", len(want), all/2)
	}
	eventually(t, "the second ledger is the first one's", func(context.Context) (bool, error) {
		if d := cmp.Diff(want, second.boundEntries()); d != "" {
			return false, fmt.Errorf("-first +second:\n%s", d)
		}
		return true, nil
	})
	if n := len(second.engine.Ledger().Pods()); n != all/2 {
		t.Errorf("%d pods hold cards in the second ledger, want the %d bound ones", n, all/2)
	}
	c.check(t, second)
	close(lead)
	c.ungate(t, "copied")
	c.waitBound(t, "halfway", "copied")
	free := slots - all/2 - 2
	c.createGroup(t, "rest", int32(free))
	rest := members("rest", free, kit.VRAM(share, 1))
	c.createPods(t, rest...)
	c.waitBound(t, names(rest)...)
	c.check(t, second)
	for i, use := range second.engine.Ledger().Node("n1").Use {
		if use.Holders != slots/8 {
			t.Errorf("card %d has %d pods, want %d", i, use.Holders, slots/8)
		}
	}
}

// slowLists holds lists, and watches that begin with one, until they are let go.
type slowLists struct {
	// gates are closed to let the lists of a kind go.
	gates map[string]chan struct{}
	// binds counts Bindings.
	binds atomic.Int32

	mu    sync.Mutex
	asked map[string]bool
}

// The kinds of lists. Pods that have ended are in one of their own.
const (
	listNodes = "nodes"
	listPods  = "pods"
	listEnded = "ended pods"
	listGroup = "PodGroups"
)

func newSlowLists(kinds ...string) *slowLists {
	s := &slowLists{gates: map[string]chan struct{}{}, asked: map[string]bool{}}
	for _, kind := range kinds {
		s.gates[kind] = make(chan struct{})
	}
	return s
}

func kindOfList(r *http.Request) string {
	switch {
	case r.Method != http.MethodGet:
	case r.URL.Path == "/api/v1/nodes":
		return listNodes
	case r.URL.Path == "/api/v1/pods" && r.URL.Query().Get("fieldSelector") == observe.EndedSelector:
		return listEnded
	case r.URL.Path == "/api/v1/pods":
		return listPods
	case r.URL.Path == "/apis/scheduling.x-k8s.io/v1alpha1/podgroups":
		return listGroup
	}
	return ""
}

func (s *slowLists) hold(r *http.Request) {
	if isBind("")(r) {
		s.binds.Add(1)
	}
	kind := kindOfList(r)
	s.mu.Lock()
	s.asked[kind] = true
	s.mu.Unlock()
	if gate := s.gates[kind]; gate != nil {
		select {
		case <-gate:
		case <-r.Context().Done():
		}
	}
}

// waitAsked waits until lists of all these kinds were asked for.
func (s *slowLists) waitAsked(t *testing.T, kinds ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("lists of %v are asked for", kinds), func(context.Context) (bool, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !slices.ContainsFunc(kinds, func(kind string) bool { return !s.asked[kind] }), nil
	})
}

// TestCaseB088NothingIsBoundBeforeAllIsKnown: a scheduler starts on a node that is full of bound pods. What it knows comes in
// different orders; it binds nothing that it should not.
func TestCaseB088NothingIsBoundBeforeAllIsKnown(t *testing.T) {
	c := startGangCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	before := startReplica(t, c.config, replicaOptions{})
	pods, bound := podsOf("p", 8, kit.GPUs(1))
	c.createPods(t, pods...)
	c.waitBound(t, bound...)
	before.stop()
	c.createPods(t, kit.Pod(namespace, "q", kit.GPUs(1), on("n1")))
	t.Run("nodes first", c.podsAreKnownLate)
	t.Run("PodGroups last", c.groupsAreKnownLast)
	if node := c.pod(t, "q").Spec.NodeName; node != "" {
		t.Errorf("q is bound to node %s, which is full", node)
	}
}

// podsAreKnownLate: until the program knows the pods it is not ready and binds nothing; then the pod that waits is told that
// the node is full.
func (c *cluster) podsAreKnownLate(t *testing.T) {
	lists := newSlowLists(listPods)
	s := c.startUnready(t, &faultyAPI{drop: func(r *http.Request) bool { lists.hold(r); return false }})
	lists.waitAsked(t, listNodes, listPods, listGroup)
	s.waitReady(t, http.StatusInternalServerError)
	if n := lists.binds.Load(); n != 0 {
		t.Errorf("%d Bindings were sent while the pods were not known", n)
	}
	close(lists.gates[listPods])
	s.waitReady(t, http.StatusOK)
	if reason := c.waitRefused(t, "q"); !contains(reason, "0 of 1 whole GPU free") {
		t.Errorf("q waits with %q, want that the node is full", reason)
	}
	if n := lists.binds.Load(); n != 0 {
		t.Errorf("%d Bindings were sent to a full node", n)
	}
	if err := s.Kill(); err != nil {
		t.Fatal(err)
	}
}

// groupsAreKnownLast: until the ledger knows which pods have ended, no pod with GPUs is bound; until PodGroups are known, no
// member of a gang is.
func (c *cluster) groupsAreKnownLast(t *testing.T) {
	c.createNodes(t, kit.Node("n2", kit.N8s("n2")))
	c.createGroup(t, "g", 2)
	gang := members("g", 2, kit.GPUs(1))
	c.createPods(t, append(gang, kit.Pod(namespace, "solo", kit.GPUs(1), on("n2")))...)
	lists := newSlowLists(listEnded, listGroup)
	r := startReplica(t, c.config, replicaOptions{
		configure: withoutBackoff, wrap: answering(func(r *http.Request) int { lists.hold(r); return 0 }),
	})
	lists.waitAsked(t, listEnded, listGroup)
	c.waitSays(t, engine.ErrNotSynced.Error(), "solo")
	if n := lists.binds.Load(); n != 0 {
		t.Errorf("%d Bindings were sent while the ledger was not whole", n)
	}
	close(lists.gates[listEnded])
	c.waitBound(t, "solo")
	if n := lists.binds.Load(); n != 1 || c.boundOf(t, "g") != 0 {
		t.Errorf("%d Bindings were sent, %d members are bound; want solo's alone while PodGroups are not known", n, c.boundOf(t, "g"))
	}
	close(lists.gates[listGroup])
	c.waitBound(t, names(gang)...)
	c.check(t, r)
}

// unready is the program from the moment of its start on.
type unready struct {
	*process.Process
	url string
}

// startUnready runs the program behind a proxy and does not wait until it is ready.
func (c *cluster) startUnready(t *testing.T, api *faultyAPI) *unready {
	t.Helper()
	path := c.schedulerConfig(t, c.startFaultyAPI(t, api), withoutLeaderElection)
	port, err := process.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(t.Context(), process.Config{
		Path: checkout.Binary(t, "gpu-topology-scheduler"), LogFile: filepath.Join(t.TempDir(), "scheduler.log"),
		Args: []string{"--config=" + path, "--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port)},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Logf("stop the scheduler: %v", err)
		}
	})
	return &unready{p, fmt.Sprintf("https://127.0.0.1:%d/readyz", port)}
}

// waitReady waits until the program answers so to the question whether it is ready.
func (u *unready) waitReady(t *testing.T, want int) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		// It made its certificate for itself.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	eventually(t, fmt.Sprintf("/readyz answers %d", want), func(ctx context.Context) (bool, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.url, http.NoBody)
		if err != nil {
			return false, err
		}
		answer, err := client.Do(request)
		if err != nil {
			return false, fmt.Errorf("%w; its log ends with:\n%s", err, u.Tail())
		}
		text, err := io.ReadAll(answer.Body)
		if closeErr := answer.Body.Close(); err == nil {
			err = closeErr
		}
		if err == nil && answer.StatusCode != want {
			err = fmt.Errorf("%d: %s", answer.StatusCode, text)
		}
		return err == nil, err
	})
}
