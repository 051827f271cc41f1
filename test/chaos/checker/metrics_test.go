package checker

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadMetrics(t *testing.T) {
	got, err := readMetrics(strings.NewReader(`# HELP gpu_topology_scheduler_drift_repairs_total [ALPHA] ...
gpu_topology_scheduler_drift_repairs_total{kind="left-over"} 3
gpu_topology_scheduler_drift_repairs_total{kind="orphan"} 1
gpu_topology_scheduler_bind_outcomes_total{outcome="success"} 1e+02
gpu_topology_scheduler_rollbacks_total{cause="bind",stage="binding"} 2
gpu_topology_scheduler_sweep_duration_seconds_count 5
scheduler_pending_pods{queue="active"} 7
go_goroutines 42
`))
	want := Metrics{Repairs: Counts{"left-over": 3, "orphan": 1}, Binds: Counts{"success": 100}, Rollbacks: Counts{"bind/binding": 2}, Goroutines: 42}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, d)
	}
	for _, bad := range []string{`gpu_topology_scheduler_drift_repairs_total{kind="x"} many`, "go_goroutines many"} {
		if _, err := readMetrics(strings.NewReader(bad)); err == nil {
			t.Errorf("%s is no error", bad)
		}
	}
}
