package controlplane

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// gateState is everything that a control plane may change in this process.
func gateState() map[string]string {
	g := utilfeature.DefaultMutableFeatureGate
	state := map[string]string{
		"emulated": g.EmulationVersion().String(), "minimum": g.MinCompatibilityVersion().String(),
		"process": compatibility.DefaultComponentGlobalsRegistry.EffectiveVersionFor("kube").EmulationVersion().String(),
	}
	for f := range g.GetAll() {
		state[string(f)] = map[bool]string{true: "on", false: "off"}[g.Enabled(f)]
		if g.ExplicitlySet(f) {
			state[string(f)] += ", set"
		}
	}
	return state
}

func TestStartRefuses(t *testing.T) {
	before := gateState()
	for name, tc := range map[string]struct {
		options Options
		want    []string
	}{
		"no directory":         {Options{}, []string{"DataDir"}},
		"directory is a file":  {Options{DataDir: "/dev/null/x"}, []string{"/dev/null"}},
		"negative port":        {Options{DataDir: "d", Port: -1}, []string{"Port -1"}},
		"port too large":       {Options{DataDir: "d", Port: 65536}, []string{"Port 65536"}},
		"version not a number": {Options{DataDir: "d", EmulatedVersion: "latest"}, []string{"EmulatedVersion", "latest"}},
		"version too old":      {Options{DataDir: "d", EmulatedVersion: "1.20"}, []string{"EmulatedVersion", "1.20", "1.34"}},
		"version too new":      {Options{DataDir: "d", EmulatedVersion: "1.99"}, []string{"EmulatedVersion", "1.99", "1.37"}},
		"patch version":        {Options{DataDir: "d", EmulatedVersion: "1.34.1"}, []string{"EmulatedVersion", "1.34.1"}},
		"unknown gate":         {Options{DataDir: "d", FeatureGates: map[string]bool{"NoSuchGate": true}}, []string{"FeatureGates", "NoSuchGate"}},
		"locked gate":          {Options{DataDir: "d", FeatureGates: map[string]bool{"DynamicResourceAllocation": false}}, []string{"FeatureGates", "DynamicResourceAllocation"}},
		"gate by flag":         {Options{DataDir: "d", ExtraArgs: []string{"--feature-gates=A=true"}}, []string{"ExtraArgs", "FeatureGates"}},
		"unknown flag":         {Options{DataDir: "d", ExtraArgs: []string{"--no-such-flag"}}, []string{"no-such-flag"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			_, err := Start(t.Context(), tc.options)
			wantError(t, "Start", err, tc.want...)
			if diff := cmp.Diff(before, gateState()); diff != "" {
				t.Errorf("gates of this process changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestGates holds gates as control planes would, without running any.
func TestGates(t *testing.T) {
	var hold gateHold
	before := gateState()
	old := Options{DataDir: "/old", EmulatedVersion: "1.34", FeatureGates: map[string]bool{"DRADeviceTaints": true}}
	_, releaseFirst, err := hold.acquire(&old)
	if err != nil {
		t.Fatal(err)
	}
	if got := gateState(); got["emulated"] != "1.34" || maps.Equal(before, got) {
		t.Fatalf("emulated version while held = %s, want 1.34", got["emulated"])
	}
	equal := Options{DataDir: "/equal", EmulatedVersion: "1.34", FeatureGates: map[string]bool{"DRADeviceTaints": true}}
	_, releaseSecond, err := hold.acquire(&equal)
	if err != nil {
		t.Fatalf("acquire of equal gates: %v", err)
	}
	for name, other := range map[string]Options{
		"other version": {DataDir: "/other", EmulatedVersion: "1.35", FeatureGates: old.FeatureGates},
		"other gates":   {DataDir: "/other", EmulatedVersion: "1.34"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := hold.acquire(&other)
			wantError(t, "acquire", err, "/old", "process-wide")
		})
	}
	for _, release := range []func() error{releaseFirst, releaseFirst, releaseSecond} {
		if err := release(); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, gateState()); diff != "" {
		t.Errorf("gates after the last release (-before +after):\n%s", diff)
	}
}

// TestGatesKeepEarlierSetting starts from a process that has set a gate itself.
func TestGatesKeepEarlierSetting(t *testing.T) {
	const gate = featuregate.Feature("DRADeviceTaintRules")
	g := utilfeature.DefaultMutableFeatureGate
	if err := g.Set(string(gate) + "=false"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.ResetFeatureValueToDefault(gate); err != nil {
			t.Error(err)
		}
	})
	before := gateState()
	var hold gateHold
	_, release, err := hold.acquire(&Options{DataDir: "/d", FeatureGates: map[string]bool{string(gate): true}})
	if err != nil {
		t.Fatal(err)
	}
	if !g.Enabled(gate) {
		t.Errorf("%s while held = off, want on", gate)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, gateState()); diff != "" {
		t.Errorf("gates after release (-before +after):\n%s", diff)
	}
}

func TestEtcdSocket(t *testing.T) {
	t.Chdir(t.TempDir()) // its full path may be too long for a socket already
	short, long := ".", strings.Repeat("d", maxSocketPath)
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dir, tmp  string
		wantInDir bool
		wantError bool
	}{
		"plain":                  {dir: "/var/lib/x_1.2-3", tmp: short, wantInDir: true},
		"longest":                {dir: "/" + strings.Repeat("d", maxSocketPath-len("/etcd.sock")-1), tmp: short, wantInDir: true},
		"one byte too long":      {dir: "/" + strings.Repeat("d", maxSocketPath-len("/etcd.sock")), tmp: short},
		"space":                  {dir: "/a b", tmp: short},
		"fragment":               {dir: "/a#b", tmp: short},
		"comma":                  {dir: "/a,b", tmp: short},
		"temporary one too long": {dir: "/a b", tmp: long, wantError: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", tc.tmp)
			path, remove, err := etcdSocket(layout(tc.dir))
			if err != nil {
				if !tc.wantError {
					t.Fatal(err)
				}
				wantError(t, "etcdSocket", err, "TMPDIR", long)
				return
			}
			if inDir := filepath.Dir(path) == tc.dir; inDir != tc.wantInDir || tc.wantError {
				t.Errorf("etcdSocket() = %s, want in the data directory %t, error %t", path, tc.wantInDir, tc.wantError)
			}
			if err := remove(); err != nil {
				t.Error(err)
			}
			left, err := os.ReadDir(tc.tmp)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 1 { // long itself
				t.Errorf("%d entries left in TMPDIR, want 1", len(left))
			}
		})
	}
}
