package config

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func ncclDefaults() *NCCLTopologyArgs {
	args := &NCCLTopologyArgs{}
	SetNCCLDefaults(args)
	return args
}

func TestSetNCCLDefaults(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	count := func(v int32) *int32 { return &v }
	tests := map[string]struct {
		args, want NCCLTopologyArgs
	}{
		"nothing set":        {NCCLTopologyArgs{}, NCCLTopologyArgs{PCIWeight: number(0.4), NVLinkWeight: number(0.6), MaxPlacements: count(64)}},
		"one weight":         {NCCLTopologyArgs{PCIWeight: number(0.25)}, NCCLTopologyArgs{PCIWeight: number(0.25), NVLinkWeight: number(0.75), MaxPlacements: count(64)}},
		"the other weight":   {NCCLTopologyArgs{NVLinkWeight: number(1)}, NCCLTopologyArgs{PCIWeight: number(0), NVLinkWeight: number(1), MaxPlacements: count(64)}},
		"what is set stands": {NCCLTopologyArgs{PCIWeight: number(0), NVLinkWeight: number(0), MaxPlacements: count(0), AllowCrossZone: true}, NCCLTopologyArgs{PCIWeight: number(0), NVLinkWeight: number(0), MaxPlacements: count(0), AllowCrossZone: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			SetNCCLDefaults(&tt.args)
			if diff := cmp.Diff(tt.want, tt.args); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if err := ValidateNCCL(ncclDefaults()); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestValidateNCCL(t *testing.T) {
	tests := map[string]struct {
		change func(*NCCLTopologyArgs)
		want   string // what the error names, "" for no error
	}{
		"defaults":          {func(*NCCLTopologyArgs) {}, ""},
		"one weight is all": {func(a *NCCLTopologyArgs) { *a.PCIWeight, *a.NVLinkWeight = 1, 0 }, ""},
		"thirds":            {func(a *NCCLTopologyArgs) { *a.PCIWeight, *a.NVLinkWeight = 1.0/3, 2.0/3 }, ""},
		"not 1 together":    {func(a *NCCLTopologyArgs) { *a.PCIWeight = 0.5 }, "together must be 1, not 1.1"},
		"negative":          {func(a *NCCLTopologyArgs) { *a.PCIWeight, *a.NVLinkWeight = -0.5, 1.5 }, `pciWeight: Invalid value: "-0.5"`},
		"NaN":               {func(a *NCCLTopologyArgs) { *a.NVLinkWeight = math.NaN() }, `nvlinkWeight: Invalid value: "NaN"`},
		"no weights":        {func(a *NCCLTopologyArgs) { a.PCIWeight, a.NVLinkWeight = nil, nil }, `pciWeight: Invalid value: "nothing"`},
		"fewest placements": {func(a *NCCLTopologyArgs) { *a.MaxPlacements = 1 }, ""},
		"most placements":   {func(a *NCCLTopologyArgs) { *a.MaxPlacements = 1000 }, ""},
		"no placements":     {func(a *NCCLTopologyArgs) { *a.MaxPlacements = 0 }, `maxPlacements: Invalid value: "0"`},
		"too many":          {func(a *NCCLTopologyArgs) { *a.MaxPlacements = 1001 }, "maxPlacements"},
		"own levels": {func(a *NCCLTopologyArgs) {
			a.Levels = []FabricLevel{{Level: "rack", Keys: []FabricKey{{Key: "example.com/rack"}}}}
		}, ""},
		"unknown level": {func(a *NCCLTopologyArgs) { a.Levels = []FabricLevel{{Level: "row", Keys: []FabricKey{{Key: "k"}}}} }, `levels[0].level: Invalid value: "row"`},
		"level twice": {func(a *NCCLTopologyArgs) {
			a.Levels = []FabricLevel{{Level: "leaf", Keys: []FabricKey{{Key: "a"}}}, {Level: "rack", Keys: []FabricKey{{Key: "b"}}}}
		}, "levels[1]"},
		"level without keys": {func(a *NCCLTopologyArgs) { a.Levels = []FabricLevel{{Level: "leaf"}} }, "levels[0]"},
		"long prefix": {func(a *NCCLTopologyArgs) {
			a.Levels = []FabricLevel{{Level: "leaf", Keys: []FabricKey{{Key: "k", Prefix: ".."}}}}
		}, "prefix"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := ncclDefaults()
			tt.change(args)
			err := ValidateNCCL(args)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestFabricLevels(t *testing.T) {
	args := &NCCLTopologyArgs{Levels: []FabricLevel{
		{Level: "rack", Keys: []FabricKey{{Key: "a"}, {Key: "b", Prefix: "."}}}, {Level: "zone", Keys: []FabricKey{{Key: "c"}}},
	}}
	got, err := args.FabricLevels()
	if err != nil {
		t.Fatal(err)
	}
	want := []topology.LevelKeys{
		{Level: topology.LevelLeaf, Keys: []topology.LabelKey{{Key: "a"}, {Key: "b", Prefix: "."}}},
		{Level: topology.LevelZone, Keys: []topology.LabelKey{{Key: "c"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if none, err := ncclDefaults().FabricLevels(); err != nil || len(none) != 0 {
		t.Errorf("without levels: %v, %v, want none, which means the built-in ones", none, err)
	}
}

// TestNCCLCopyIsDeep: no part of the copy changes with the original.
func TestNCCLCopyIsDeep(t *testing.T) {
	args := ncclDefaults()
	args.Levels = []FabricLevel{{Level: "leaf", Keys: []FabricKey{{Key: "a"}}}}
	before, ok := args.DeepCopyObject().(*NCCLTopologyArgs)
	if !ok {
		t.Fatal("the copy has another type")
	}
	if diff := cmp.Diff(args, before); diff != "" {
		t.Fatalf("the copy differs (-original +copy):\n%s", diff)
	}
	*args.PCIWeight, *args.NVLinkWeight, *args.MaxPlacements, args.Levels[0].Level, args.Levels[0].Keys[0].Key = 1, 0, 1, "zone", "b"
	want := ncclDefaults()
	want.Levels = []FabricLevel{{Level: "leaf", Keys: []FabricKey{{Key: "a"}}}}
	if diff := cmp.Diff(want, before); diff != "" {
		t.Errorf("the copy changed with the original (-want +got):\n%s", diff)
	}
	if none := (*NCCLTopologyArgs)(nil); none.DeepCopy() != nil || none.DeepCopyObject() != nil {
		t.Error("the copy of nothing is something")
	}
}

// TestNCCLTopologyArgsAreDecodedStrictly: the scheduler's own decoder knows the args, fills in defaults and names what it
// does not know.
func TestNCCLTopologyArgsAreDecodedStrictly(t *testing.T) {
	text := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: gpu-topology-scheduler
    plugins: {score: {enabled: [{name: NCCLTopology}]}}
    pluginConfig:
      - name: NCCLTopology
        args: `
	cfg, err := decode(text + "{pciWeight: 0.3, allowCrossZone: true, levels: [{level: rack, keys: [{key: example.com/rack, prefix: .}]}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	want := ncclDefaults()
	*want.PCIWeight, *want.NVLinkWeight, want.AllowCrossZone = 0.3, 0.7, true
	want.Levels = []FabricLevel{{Level: "rack", Keys: []FabricKey{{Key: "example.com/rack", Prefix: "."}}}}
	found := false
	for _, p := range cfg.Profiles[0].PluginConfig {
		if args, ok := p.Args.(*NCCLTopologyArgs); ok {
			found = true
			args.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(want, args); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		}
	}
	if !found {
		t.Fatal("the configuration holds no NCCLTopologyArgs")
	}
	for _, bad := range []string{"{pciWeigth: 0.3}", "{maxPlacements: many}", "{levels: [{level: leaf, key: a}]}"} {
		if _, err := decode(text + bad + "\n"); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}
