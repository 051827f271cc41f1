package engine

import (
	"errors"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// TestBindOnlyWhatIsHeld: nothing is sent for cards that others may hold by now.
func TestBindOnlyWhatIsHeld(t *testing.T) {
	tests := map[string]struct {
		before func(*bench)
		want   string
	}{
		"pod deleted":           {func(b *bench) { b.ledger.Release(podUID) }, "given back"},
		"reservation forgotten": {func(b *bench) { b.ledger.Forget(podUID) }, "given back"},
		"already bound":         {func(b *bench) { b.ledger.Confirm(podUID) }, "bound"},
		"outcome unknown":       {func(b *bench) { b.ledger.Suspect(podUID) }, "unknown"},
		"other cards": {func(b *bench) {
			b.ledger.Forget(podUID)
			h := b.holding
			h.Cards = slices.Clone(h.Cards)
			h.Cards[0].Index, h.Cards[0].UUID = 1, b.ledger.Node("n1").Topology.Card(1).UUID
			if err := b.ledger.Assume(h); err != nil {
				panic(err)
			}
		}, "other cards"},
		"sent already": {func(b *bench) { b.inFlight.pods[podUID] = true }, "under way"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, clock.RealClock{})
			b.server.onPost = func(s *server, _ int, binding *v1.Binding) error { s.commit(binding); return nil }
			tt.before(b)
			err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Bind: %v, want an error with %q", err, tt.want)
			}
			if b.server.posts != 0 {
				t.Errorf("%d Bindings were sent", b.server.posts)
			}
		})
	}
}

// TestForgetIdle: what is being bound is not left over, and is again once the bind has failed.
func TestForgetIdle(t *testing.T) {
	b := newBench(t, clock.RealClock{}).observed(t)
	b.server.onPost = func(*server, int, *v1.Binding) error {
		if !b.Binding(podUID) || b.ForgetIdle(podUID) {
			t.Error("a reservation was given back while its Binding was being sent")
		}
		return apierrors.NewForbidden(podResource, "p", errors.New("no right"))
	}
	if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); err == nil {
		t.Fatal("the refused bind succeeded")
	}
	if got := b.stage(); got != ledger.StageAssumed {
		t.Errorf("stage %v after a failed bind, want assumed until Unreserve", got)
	}
	if b.Binding(podUID) || !b.ForgetIdle(podUID) {
		t.Error("the reservation of a bind that is over was not given back")
	}
	if err := b.Bind(b.ctx, b.handle, b.binding, b.holding.Cards); err == nil || b.server.posts != 1 {
		t.Errorf("bind after the reservation was given back: %v, %d Bindings sent in all", err, b.server.posts)
	}
}
