package engine

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	componentbaseconfig "k8s.io/component-base/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// leaseSeconds is the lease that kube-scheduler asks for by default.
const leaseSeconds = 15

// byLease is what Elects is told; it is not called here since it is for the whole process.
var byLease = &componentbaseconfig.LeaderElectionConfiguration{LeaderElect: true, ResourceName: "lease", ResourceNamespace: "ns"}

// election is a lease, and an API server that shows it.
type election struct {
	spec  coordinationv1.LeaseSpec
	clock *testingclock.FakeClock
	down  bool
	reads int
}

func newElection() *election {
	e := &election{clock: testingclock.NewFakeClock(time.Unix(1000, 0))}
	e.acquire("host_a")
	return e
}

// acquire is what an elector does to take the lease, or to renew its own.
func (e *election) acquire(holder string) {
	transitions := int32(0)
	if e.spec.LeaseTransitions != nil {
		transitions = *e.spec.LeaseTransitions
		if *e.spec.HolderIdentity != holder {
			transitions++
		}
	}
	e.spec = coordinationv1.LeaseSpec{
		HolderIdentity: new(holder), LeaseTransitions: &transitions, LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &metav1.MicroTime{Time: e.clock.Now()},
	}
}

func (e *election) client() *fake.Clientset {
	client := fake.NewClientset()
	client.PrependReactor("get", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
		e.reads++
		if e.down {
			return true, nil, errLost
		}
		return true, &coordinationv1.Lease{Spec: *e.spec.DeepCopy()}, nil
	})
	return client
}

func (e *election) fence(t interface{ Fatal(...any) }) *fence {
	f, err := newFence(e.client(), byLease, e.clock)
	if err != nil {
		t.Fatal(err)
	}
	f.host = "host_"
	return f
}

func TestFence(t *testing.T) {
	tests := map[string]struct {
		// happens is what comes between the begin of the term and the check.
		happens func(*election)
		// want is part of the error, "" for none; wantReads is how often the check reads the lease.
		want      string
		wantReads int
	}{
		"at once":                      {func(*election) {}, "", 0},
		"renewed, and read again":      {func(e *election) { e.clock.Step(7 * time.Second); e.acquire("host_a") }, "", 1},
		"not renewed, half is over":    {func(e *election) { e.clock.Step(7 * time.Second) }, "", 1},
		"frozen, nobody else leads":    {func(e *election) { e.clock.Step(13 * time.Second) }, "too near to its end after 15s", 1},
		"frozen, renewed since":        {func(e *election) { e.clock.Step(time.Hour); e.acquire("host_a") }, "", 1},
		"frozen, another leads":        {func(e *election) { e.clock.Step(time.Hour); e.acquire("host_b") }, `held by "host_b" (transition 1)`, 1},
		"another led meanwhile":        {func(e *election) { e.clock.Step(time.Hour); e.acquire("host_b"); e.acquire("host_a") }, `held by "host_a" (transition 2)`, 1},
		"another host leads":           {func(e *election) { e.clock.Step(time.Hour); e.acquire("far_a") }, `held by "far_a"`, 1},
		"given up":                     {func(e *election) { e.clock.Step(7 * time.Second); e.acquire("") }, `held by ""`, 1},
		"unreadable, time is left":     {func(e *election) { e.clock.Step(7 * time.Second); e.down = true }, "", 1},
		"unreadable, time is over":     {func(e *election) { e.clock.Step(12 * time.Second); e.down = true }, "read lease lease", 1},
		"the clock was set back":       {func(e *election) { e.clock.SetTime(e.clock.Now().Add(-time.Hour)) }, "", 0},
		"the lease tells no renewTime": {func(e *election) { e.clock.Step(7 * time.Second); e.spec.RenewTime = nil }, "no holder, renewTime", 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := newElection()
			f := e.fence(t)
			if err := f.begin(t.Context()); err != nil {
				t.Fatal(err)
			}
			e.reads = 0
			tt.happens(e)
			err := f.check(t.Context())
			if (err != nil) != (tt.want != "") || err != nil && (!errors.Is(err, ErrDeposed) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("check: %v, want %q", err, tt.want)
			}
			if e.reads != tt.wantReads {
				t.Errorf("the lease was read %d times, want %d", e.reads, tt.wantReads)
			}
		})
	}
}

// TestFenceBeginsOnOwnLease: a process that stood still since the election told it that it leads does not take the next
// leader's term for its own.
func TestFenceBeginsOnOwnLease(t *testing.T) {
	tests := map[string]func(*election){
		"another host":         func(e *election) { e.acquire("far_a") },
		"nobody":               func(e *election) { e.acquire("") },
		"not renewed for long": func(e *election) { e.clock.Step(13 * time.Second) },
		"no answer":            func(e *election) { e.down = true },
		"no transitions":       func(e *election) { e.spec.LeaseTransitions = nil },
	}
	for name, happens := range tests {
		t.Run(name, func(t *testing.T) {
			e := newElection()
			f := e.fence(t)
			happens(e)
			if err := f.begin(t.Context()); !errors.Is(err, ErrDeposed) {
				t.Errorf("begin: %v", err)
			}
			if err := f.check(t.Context()); !errors.Is(err, ErrDeposed) {
				t.Errorf("check after a begin that failed: %v", err)
			}
		})
	}
}

// TestFenceClosesBeforeAnotherLeads runs two electors by the rules of client-go, the first of which may stand still for any
// time, and asks the fence of the first at any moment: whenever it lets a request pass, the lease is the first one's.
func TestFenceClosesBeforeAnotherLeads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newElection()
		f := e.fence(t)
		if err := f.begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		var seen coordinationv1.LeaseSpec // what the second saw last, and when
		var seenAt time.Time
		observe := func() {
			if seen.RenewTime == nil || !seen.RenewTime.Equal(e.spec.RenewTime) || *seen.HolderIdentity != *e.spec.HolderIdentity {
				seen, seenAt = *e.spec.DeepCopy(), e.clock.Now()
			}
		}
		passed, refused := 0, 0
		t.Repeat(map[string]func(*rapid.T){
			"time goes by": func(t *rapid.T) {
				e.clock.Step(time.Duration(rapid.Int64Range(1, int64(20*time.Second)).Draw(t, "step")))
			},
			"the first renews": func(*rapid.T) {
				if *e.spec.HolderIdentity == "host_a" {
					e.acquire("host_a")
				}
			},
			"the second looks": func(*rapid.T) {
				observe()
				if *e.spec.HolderIdentity == "host_a" && !e.clock.Now().Before(seenAt.Add(leaseSeconds*time.Second)) {
					e.acquire("host_b")
				}
			},
			"the first regains": func(*rapid.T) {
				if *e.spec.HolderIdentity == "host_b" && e.clock.Now().After(e.spec.RenewTime.Add(leaseSeconds*time.Second)) {
					e.acquire("host_a")
				}
			},
			"the API server changes": func(t *rapid.T) { e.down = rapid.Bool().Draw(t, "down") },
			"the first sends": func(t *rapid.T) {
				if err := f.check(t.Context()); err != nil {
					refused++
					return
				}
				passed++
				if *e.spec.HolderIdentity != "host_a" || *e.spec.LeaseTransitions != f.term.transitions {
					t.Fatalf("a request passed while %q leads, transition %d", *e.spec.HolderIdentity, *e.spec.LeaseTransitions)
				}
			},
		})
	})
}

// TestDeposedBindsNothing: behind the client's rate limit, where requests wait, a leader that is none any more sends nothing;
// its cards may be given back, and it takes no second look at the pod.
func TestDeposedBindsNothing(t *testing.T) {
	var posts atomic.Int32
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		posts.Add(1)
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(api.Close)
	lease := newElection()
	b := newBench(t, lease.clock)
	b.election = byLease
	handle := newHandle(b.ctx, t, lease.client(), frameworkruntime.WithKubeConfig(&rest.Config{Host: api.URL}))
	if err := b.openFence(handle); err != nil {
		t.Fatal(err)
	}
	b.fence.host = "host_"
	if err := b.fence.begin(b.ctx); err != nil {
		t.Fatal(err)
	}
	lease.clock.Step(time.Hour)
	lease.acquire("host_b")
	if err := b.Bind(b.ctx, handle, b.binding, b.holding.Cards); !errors.Is(err, ErrDeposed) || errors.Is(err, ErrBindUnknown) {
		t.Errorf("Bind: %v", err)
	}
	if n := posts.Load(); n != 0 || b.server.gets != 0 {
		t.Errorf("%d requests were sent, and the pod was read %d times", n, b.server.gets)
	}
	if !b.GiveBack(podUID, "") {
		t.Error("the cards cannot be given back")
	}
	lease.acquire("host_a")
	*lease.spec.LeaseTransitions = b.fence.term.transitions
	if err := b.ledger.Assume(b.holding); err != nil {
		t.Fatal(err)
	}
	if err := b.Bind(b.ctx, handle, b.binding, b.holding.Cards); err != nil || posts.Load() != 1 {
		t.Errorf("Bind of one that leads: %v, %d requests", err, posts.Load())
	}
	if _, stage, _ := b.ledger.Holding(podUID); stage != ledger.StageBound {
		t.Errorf("stage %v after the bind", stage)
	}
}

// TestDeposedAfterALostAnswer: what was sent before the fence closed may have been committed, so the cards stay held.
func TestDeposedAfterALostAnswer(t *testing.T) {
	lease := newElection()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		lease.clock.Step(time.Hour)
		w.WriteHeader(http.StatusInternalServerError)
	}))
	t.Cleanup(api.Close)
	b := newBench(t, lease.clock)
	b.election = byLease
	client := lease.client()
	client.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, kit.Pod("ns", "p", kit.UID(podUID), kit.GPUs(1), func(*v1.Pod) {}), nil
	})
	handle := newHandle(b.ctx, t, client, frameworkruntime.WithKubeConfig(&rest.Config{Host: api.URL}))
	if err := b.openFence(handle); err != nil {
		t.Fatal(err)
	}
	b.fence.host = "host_"
	if err := b.fence.begin(b.ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Bind(b.ctx, handle, b.binding, b.holding.Cards); !errors.Is(err, ErrBindUnknown) {
		t.Errorf("Bind: %v, want one of unknown outcome", err)
	}
	if b.GiveBack(podUID, "") {
		t.Error("cards of a pod that may be bound were given back")
	}
}
