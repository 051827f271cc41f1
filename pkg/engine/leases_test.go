package engine

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

// TestLeases: a lease ages by this process's clock from its last renewal on, whatever the node's own clock says, and the
// renewal of a stale one is told.
func TestLeases(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1e9, 0))
	revived := 0
	l := newLeases(nil, clock, 40*time.Second, func() { revived++ })
	lease := func(second int64) *coordinationv1.Lease {
		at := metav1.NewMicroTime(time.Unix(second, 0)) // of a clock that is years behind
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &at}}
	}
	want := func(what string, stale bool, told int) {
		t.Helper()
		if got := l.stale()["n1"]; got != stale || revived != told {
			t.Errorf("%s: stale %t, revived %d times, want %t and %d", what, got, revived, stale, told)
		}
	}
	pass := func(d time.Duration) { clock.SetTime(clock.Now().Add(d)) }
	want("no lease", false, 0)
	l.renewed(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	want("a lease without a time", false, 0)
	l.renewed(lease(1))
	pass(40 * time.Second)
	want("40 s old", false, 0)
	pass(time.Second)
	want("41 s old", true, 0)
	l.renewed(lease(1))
	want("shown again, not renewed", true, 0)
	l.renewed(lease(2))
	want("renewed", false, 1)
	l.renewed(lease(3))
	want("renewed in time", false, 1)
	pass(time.Hour)
	l.gone(lease(3))
	want("gone", false, 1)
}
