package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics/testutil"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

// rollbacks reads every series of the counter of rollbacks that is not 0, as "cause/stage".
func rollbacks(t *testing.T) map[string]float64 {
	t.Helper()
	metrics.Register()
	out := map[string]float64{}
	for _, cause := range []string{
		metrics.RollbackTrial, metrics.RollbackDeleted, metrics.RollbackBind, metrics.RollbackGang, metrics.RollbackPermit, metrics.RollbackPreBind,
		metrics.RollbackReserve, metrics.RollbackOther,
	} {
		for _, stage := range []string{
			metrics.StagePlanned, metrics.StageReserved, metrics.StageWaiting, metrics.StagePermitted, metrics.StageBinding, metrics.StageUnknown,
		} {
			n, err := testutil.GetCounterMetricValue(metrics.Rollbacks.WithLabelValues(cause, stage))
			if err != nil {
				t.Fatal(err)
			}
			if n != 0 {
				out[cause+"/"+stage] = n
			}
		}
	}
	return out
}

// counted returns what f adds to rollbacks.
func counted(t *testing.T, f func()) map[string]float64 {
	t.Helper()
	before := rollbacks(t)
	f()
	out := rollbacks(t)
	for name, n := range before {
		if out[name] -= n; out[name] == 0 {
			delete(out, name)
		}
	}
	return out
}

// TestRolledBack: for every way in which an attempt may end, what is counted, and that it is counted once.
func TestRolledBack(t *testing.T) {
	pod := kit.Pod("ns", "p", kit.UID("u1"), kit.GPUs(1))
	tests := map[string]struct {
		// run tells the attempt what happened before the rollback.
		run func(e *Engine, a *Attempt)
		// without is set where no profile runs Coscheduling, lost where the cycle state is gone.
		without, lost bool
		want          map[string]float64
	}{
		"another plugin's Reserve fails": {want: map[string]float64{"reserve/reserved": 1}},
		"nobody of ours at Permit":       {without: true, want: map[string]float64{"other/reserved": 1}},
		"the gang refuses at Permit":     {run: func(_ *Engine, a *Attempt) { a.Refused() }, want: map[string]float64{"gang/reserved": 1}},
		"the wait runs out": {run: func(e *Engine, a *Attempt) {
			e.Waits(t.Context(), a)
			a.Stood(gang.StageReserved)
		}, want: map[string]float64{"permit/waiting": 1}},
		"the gang rejects": {run: func(e *Engine, a *Attempt) {
			e.Waits(t.Context(), a)
			a.Stood(gang.StageLeaving)
		}, want: map[string]float64{"gang/waiting": 1}},
		"PreBind fails after a wait": {run: func(e *Engine, a *Attempt) {
			e.Waits(t.Context(), a)
			a.Stood(gang.StageAdmitted)
		}, want: map[string]float64{"prebind/permitted": 1}},
		"PreBind fails": {run: func(_ *Engine, a *Attempt) { a.Permitted() }, want: map[string]float64{"prebind/permitted": 1}},
		"the bind fails": {run: func(_ *Engine, a *Attempt) {
			a.Permitted()
			a.Binding(pod, "n1")
		}, want: map[string]float64{"bind/binding": 1}},
		"the pod is deleted": {run: func(e *Engine, a *Attempt) {
			e.Waits(t.Context(), a)
			e.ledger.Release("u1")
		}, want: map[string]float64{"deleted/waiting": 1}},
		"the plan has given the cards back": {run: func(e *Engine, a *Attempt) {
			e.Waits(t.Context(), a)
			a.Stood(gang.StageLeaving)
			e.ledger.Forget("u1")
		}, want: map[string]float64{"gang/waiting": 1}},
		"a trial": {run: func(_ *Engine, a *Attempt) { a.Reserved(true) }, want: map[string]float64{"trial/reserved": 1}},
		"reserved for good after a trial": {run: func(_ *Engine, a *Attempt) {
			a.Reserved(true)
			a.end()
			a.Reserved(false)
		}, want: map[string]float64{"reserve/reserved": 1}},
		"bound": {run: func(e *Engine, a *Attempt) {
			a.Binding(pod, "n1")
			e.ledger.Confirm("u1")
			a.Bound()
		}, want: map[string]float64{}},
		"a bind of unknown outcome": {run: func(e *Engine, a *Attempt) {
			a.Binding(pod, "n1")
			e.ledger.Suspect("u1")
		}, want: map[string]float64{}},
		"the cycle state is lost": {lost: true, want: map[string]float64{"other/unknown": 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			e := New(Options{})
			if !tt.without {
				e.gangs = &gangs{}
			}
			node := nodeWith(t, e.ledger, "n1", kit.N8s("n1"))
			if err := e.ledger.Assume(hold("u1", "n1", wholeCards(node, 0))); err != nil {
				t.Fatal(err)
			}
			a := Begin(framework.NewCycleState())
			a.Reserved(false)
			if tt.run != nil {
				tt.run(e, a)
			}
			if tt.lost {
				a = nil
			}
			got := counted(t, func() {
				var running sync.WaitGroup
				for range 4 {
					running.Go(func() { e.RolledBack(t.Context(), a, pod, Reserved{Node: "n1"}, e.GiveBack("u1", "")) })
				}
				running.Wait()
			})
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("rollbacks (-want +got):\n%s", d)
			}
		})
	}
}

// TestRolledBackOfADeletedPod: the informer's store knows of the end before the ledger does.
func TestRolledBackOfADeletedPod(t *testing.T) {
	b := newBench(t, nil)
	store := b.factory.Core().V1().Pods().Informer().GetStore()
	pod := kit.Pod("ns", "p", kit.UID("u1"))
	if b.podIsGone(pod) {
		t.Error("before Start nothing is known to be gone")
	}
	b.observed(t)
	if !b.podIsGone(pod) {
		t.Error("a pod that is not in the store is not gone")
	}
	for what, want := range map[string]bool{"alive": false, "replaced": true, "terminating": true} {
		is := pod.DeepCopy()
		switch what {
		case "replaced":
			is.UID = "u2"
		case "terminating":
			is.DeletionTimestamp = &metav1.Time{}
		}
		if err := store.Add(is); err != nil {
			t.Fatal(err)
		}
		if got := b.podIsGone(pod); got != want {
			t.Errorf("%s: gone is %t", what, got)
		}
	}
}

// TestNilAttempt: nothing panics where no attempt was begun.
func TestNilAttempt(t *testing.T) {
	e := New(Options{})
	pod := kit.Pod("ns", "p", kit.UID("u1"))
	var a *Attempt
	a.Reserved(false)
	a.Permitted()
	a.Refused()
	a.Bound()
	a.Stood(gang.StageLeaving)
	a.Binding(pod, "n1")
	e.Waits(t.Context(), a)
	e.Span(t.Context(), a, tracing.SpanBind).End(tracing.Details{})
	if AttemptOf(nil) != nil || Begin(nil) != nil {
		t.Error("no state has an attempt")
	}
	state := framework.NewCycleState()
	state.Write(attemptKey, foreign{})
	if AttemptOf(state) != nil {
		t.Error("data of another type is an attempt")
	}
	if got := counted(t, func() { e.RolledBack(t.Context(), nil, pod, Reserved{}, false) }); len(got) != 0 {
		t.Errorf("counted %v", got)
	}
}

type foreign struct{}

func (foreign) Clone() fwk.StateData { return foreign{} }

// TestClone: clones of a state are of the same attempt.
func TestClone(t *testing.T) {
	state := framework.NewCycleState()
	a := Begin(state)
	if Begin(state) != a || AttemptOf(state.Clone()) != a {
		t.Error("a clone is of another attempt")
	}
}

// keeping is an in-memory exporter that still has its spans after the end.
type keeping struct{ *tracetest.InMemoryExporter }

func (keeping) Shutdown(context.Context) error { return nil }

// TestWaitSpan: the wait at Permit has a span, which ends once: when the Binding is sent, or with the rollback.
func TestWaitSpan(t *testing.T) {
	pod := kit.Pod("ns", "p", kit.UID("u1"))
	for name, tt := range map[string]struct {
		end         func(e *Engine, a *Attempt)
		wantNames   []string
		wantOutcome string
	}{
		"bound": {func(_ *Engine, a *Attempt) {
			a.Binding(pod, "n1")
			a.Binding(pod, "n1")
		}, []string{tracing.SpanPermitWait}, tracing.OutcomeSuccess},
		"rolled back": {func(e *Engine, a *Attempt) {
			e.RolledBack(t.Context(), a, pod, Reserved{Node: "n1"}, true)
			e.RolledBack(t.Context(), a, pod, Reserved{Node: "n1"}, false)
		}, []string{tracing.SpanPermitWait, tracing.SpanRollback}, metrics.RollbackDeleted},
	} {
		t.Run(name, func(t *testing.T) {
			memory := tracetest.NewInMemoryExporter()
			e := New(Options{Tracer: tracing.New(keeping{memory}, 16)})
			a := Begin(framework.NewCycleState())
			a.Reserved(false)
			e.Waits(t.Context(), a)
			e.ledger.Release("u1")
			tt.end(e, a)
			if err := e.Close(); err != nil {
				t.Fatal(err)
			}
			var names, outcomes []string
			for _, span := range memory.GetSpans() {
				names = append(names, span.Name)
				for _, attribute := range span.Attributes {
					if attribute.Key == "gputopology.outcome" {
						outcomes = append(outcomes, attribute.Value.AsString())
					}
				}
			}
			if d := cmp.Diff(tt.wantNames, names); d != "" {
				t.Fatalf("spans (-want +got):\n%s", d)
			}
			if outcomes[0] != tt.wantOutcome {
				t.Errorf("outcomes %v, want %s first", outcomes, tt.wantOutcome)
			}
		})
	}
}
