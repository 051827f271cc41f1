package controlplane

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apiserver/pkg/server/healthz"
)

// TestGoroutines counts what a control plane that had clients leaves behind.
func TestGoroutines(t *testing.T) {
	// The first check of the log starts a goroutine that lasts as long as the process.
	if err := healthz.LogHealthz.Check(nil); err != nil {
		t.Logf("health of the log: %v", err)
	}
	before := goleak.IgnoreCurrent()
	c := startFor(t, Options{})
	createConfigMap(t, c.RESTConfig(), "x")
	stop(t, c)
	// Timers of the watch cache fire up to three seconds after their requests have ended.
	eventually(t, "no goroutine is left", func() error { return goleak.Find(before) })
}
