package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
)

// outcomes returns what f adds to the outcomes of binds.
func outcomes(t *testing.T, f func()) map[string]float64 {
	t.Helper()
	metrics.Register()
	all := []string{metrics.BindSuccess, metrics.BindConfirmed, metrics.BindConflict, metrics.BindUnknown, metrics.BindFailed}
	read := func(outcome string) float64 {
		n, err := testutil.GetCounterMetricValue(metrics.BindOutcomes.WithLabelValues(outcome))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, out := map[string]float64{}, map[string]float64{}
	for _, o := range all {
		before[o] = read(o)
	}
	f()
	for _, o := range all {
		if n := read(o) - before[o]; n != 0 {
			out[o] = n
		}
	}
	return out
}

func TestBindOutcomes(t *testing.T) {
	conflict := apierrors.NewConflict(podResource, "p", errors.New("already assigned to node n2"))
	tests := map[string]struct {
		onPost func(*server, int, *v1.Binding) error
		want   map[string]float64
	}{
		"acknowledged":           {func(s *server, _ int, b *v1.Binding) error { s.commit(b); return nil }, map[string]float64{metrics.BindSuccess: 1}},
		"committed, answer lost": {func(s *server, _ int, b *v1.Binding) error { s.commit(b); return errLost }, map[string]float64{metrics.BindConfirmed: 1}},
		"refused":                {answer(apierrors.NewForbidden(podResource, "p", errors.New("no"))), map[string]float64{metrics.BindFailed: 1}},
		"bound by somebody else": {func(s *server, _ int, _ *v1.Binding) error {
			s.pod.Spec.NodeName = "n2"
			return conflict
		}, map[string]float64{metrics.BindConflict: 1}},
		"another pod by now": {func(s *server, _ int, _ *v1.Binding) error {
			s.pod.UID = "u2"
			return conflict
		}, map[string]float64{metrics.BindConflict: 1}},
		"never learned": {answer(errLost), map[string]float64{metrics.BindUnknown: 1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, clock.RealClock{}).observed(t)
			b.server.onPost = tt.onPost
			got := outcomes(t, func() {
				if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); (err == nil) != (tt.want[metrics.BindSuccess]+tt.want[metrics.BindConfirmed] > 0) {
					t.Errorf("Bind: %v", err)
				}
			})
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("outcomes (-want +got):\n%s", d)
			}
		})
	}
}

// TestOutcomeOfASuspect: a bind of unknown outcome is counted once more when it is known, whoever learns it; and a reservation
// that ends with it is a rollback.
func TestOutcomeOfASuspect(t *testing.T) {
	tests := map[string]struct {
		change        func(*bench)
		age           time.Duration
		want          map[string]float64
		wantRollbacks map[string]float64
	}{
		"committed":         {func(b *bench) { b.server.commit(b.binding) }, time.Second, map[string]float64{metrics.BindConfirmed: 1}, map[string]float64{}},
		"told by an event":  {func(b *bench) { b.ledger.Confirm(podUID) }, time.Second, map[string]float64{metrics.BindConfirmed: 1}, map[string]float64{}},
		"bound elsewhere":   {func(b *bench) { b.server.pod.Spec.NodeName = "n2" }, time.Second, map[string]float64{metrics.BindFailed: 1}, map[string]float64{}},
		"gone":              {func(b *bench) { b.server.pod = nil }, time.Second, map[string]float64{metrics.BindFailed: 1}, map[string]float64{}},
		"never committed":   {func(*bench) {}, lateCommit, map[string]float64{metrics.BindFailed: 1}, map[string]float64{"bind/binding": 1}},
		"still not decided": {func(*bench) {}, time.Second, map[string]float64{}, map[string]float64{}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b, c := unresolved(t)
			tt.change(b)
			c.Step(tt.age)
			var got map[string]float64
			rolledBack := counted(t, func() {
				got = outcomes(t, func() {
					for range 2 {
						b.resolve(b.ctx, b.handle)
					}
				})
			})
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("outcomes (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.wantRollbacks, rolledBack); d != "" {
				t.Errorf("rollbacks (-want +got):\n%s", d)
			}
		})
	}
}
