package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func gangDefaults() *CoschedulingArgs {
	args := &CoschedulingArgs{}
	SetCoschedulingDefaults(args)
	return args
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestSetCoschedulingDefaults(t *testing.T) {
	ten := int32(10)
	want := &CoschedulingArgs{
		PermitTimeout: duration(time.Minute), BackoffInitial: duration(time.Second), BackoffMax: duration(10 * time.Second),
		PlanTTL: duration(5 * time.Second), TurnAfter: &ten, TurnTimeout: duration(10 * time.Minute), NodeLeaseTimeout: duration(40 * time.Second), Status: "Managed",
	}
	if diff := cmp.Diff(want, gangDefaults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := ValidateCoscheduling(gangDefaults()); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	zero := int32(0)
	set := &CoschedulingArgs{
		PermitTimeout: duration(time.Second), BackoffInitial: duration(time.Minute), BackoffMax: duration(time.Hour), PlanTTL: duration(time.Second),
		TurnAfter: &zero, TurnTimeout: duration(time.Hour), NodeLeaseTimeout: duration(0), Status: "External",
	}
	kept := set.DeepCopy()
	SetCoschedulingDefaults(set)
	if diff := cmp.Diff(kept, set); diff != "" {
		t.Errorf("what was set is changed (-before +after):\n%s", diff)
	}
	if long := (&CoschedulingArgs{BackoffInitial: duration(time.Minute)}); true {
		SetCoschedulingDefaults(long)
		if err := ValidateCoscheduling(long); err != nil {
			t.Errorf("a long backoffInitial alone: %v", err)
		}
	}
}

func TestValidateCoscheduling(t *testing.T) {
	tests := map[string]struct {
		change func(*CoschedulingArgs)
		want   string // what the error names, "" for no error
	}{
		"defaults":                 {func(*CoschedulingArgs) {}, ""},
		"longest permit":           {func(a *CoschedulingArgs) { a.PermitTimeout = duration(MaxPermitTimeout) }, ""},
		"permit beyond framework":  {func(a *CoschedulingArgs) { a.PermitTimeout = duration(16 * time.Minute) }, `permitTimeout: Invalid value: "16m0s"`},
		"negative permit":          {func(a *CoschedulingArgs) { a.PermitTimeout = duration(-1) }, `permitTimeout: Invalid value: "-1ns"`},
		"negative backoff":         {func(a *CoschedulingArgs) { a.BackoffInitial = duration(-time.Second) }, "backoffInitial"},
		"backoff shrinks":          {func(a *CoschedulingArgs) { a.BackoffMax = duration(time.Millisecond) }, "backoffMax"},
		"no permit":                {func(a *CoschedulingArgs) { a.PermitTimeout = duration(0) }, `permitTimeout: Invalid value: "0s": must be more than 0`},
		"no backoff":               {func(a *CoschedulingArgs) { a.BackoffInitial = duration(0) }, `backoffInitial: Invalid value: "0s"`},
		"no longest backoff":       {func(a *CoschedulingArgs) { a.BackoffMax = duration(0) }, `backoffMax: Invalid value: "0s"`},
		"no plan TTL":              {func(a *CoschedulingArgs) { a.PlanTTL = duration(0) }, "planTTL"},
		"no turn timeout":          {func(a *CoschedulingArgs) { a.TurnTimeout = duration(0) }, "turnTimeout"},
		"negative failures":        {func(a *CoschedulingArgs) { *a.TurnAfter = -1 }, "turnAfter: Invalid value: -1"},
		"negative lease":           {func(a *CoschedulingArgs) { a.NodeLeaseTimeout.Duration = -1 }, "nodeLeaseTimeout"},
		"leases are not looked at": {func(a *CoschedulingArgs) { a.NodeLeaseTimeout.Duration = 0 }, ""},
		"unknown status":           {func(a *CoschedulingArgs) { a.Status = "managed" }, `status: Unsupported value: "managed"`},
		"not defaulted":            {func(a *CoschedulingArgs) { *a = CoschedulingArgs{} }, "permitTimeout"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := gangDefaults()
			tt.change(args)
			err := ValidateCoscheduling(args)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestCoschedulingArgsAreDecodedStrictly: the scheduler's own decoder knows the args, fills in defaults and names what it
// does not know.
func TestCoschedulingArgsAreDecodedStrictly(t *testing.T) {
	text := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: gpu-topology-scheduler
    plugins: {permit: {enabled: [{name: Coscheduling}]}}
    pluginConfig:
      - name: Coscheduling
        args: `
	cfg, err := decode(text + "{planTTL: 7s, turnAfter: 0}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := gangDefaults()
	want.PlanTTL, *want.TurnAfter = duration(7*time.Second), 0
	found := false
	for _, p := range cfg.Profiles[0].PluginConfig {
		if args, ok := p.Args.(*CoschedulingArgs); ok {
			found = true
			args.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(want, args); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
	if !found {
		t.Fatal("the configuration holds no CoschedulingArgs")
	}
	for _, name := range []string{"permitTimeout", "backoffInitial", "backoffMax", "planTTL", "turnTimeout"} {
		refused(t, text+"{"+name+": 0s}\n", name)
	}
	if _, err := decode(text + "{planTTl: 7s}\n"); err == nil || !strings.Contains(err.Error(), "planTTl") {
		t.Errorf("an unknown field: error %v", err)
	}
	if _, err := decode(text + "{planTTL: seven}\n"); err == nil || !strings.Contains(err.Error(), "seven") {
		t.Errorf("a duration that is none: error %v", err)
	}
}

// refused checks that a zero in the file is no absent value: it is read as it stands, and refused by name.
func refused(t *testing.T, text, name string) {
	t.Helper()
	cfg, err := decode(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range cfg.Profiles[0].PluginConfig {
		switch args := p.Args.(type) {
		case *CoschedulingArgs:
			err = ValidateCoscheduling(args)
		case *GPUTopologyArgs:
			err = Validate(args)
		default:
			continue
		}
		if err == nil || !strings.Contains(err.Error(), name+`: Invalid value: "0s"`) {
			t.Errorf("%s: 0s: error %v", name, err)
		}
		return
	}
	t.Fatal("the configuration holds no args of ours")
}
