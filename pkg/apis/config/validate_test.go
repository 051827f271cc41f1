package config

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

func defaults() *GPUTopologyArgs {
	args := &GPUTopologyArgs{}
	SetDefaults(args)
	return args
}

func TestSetDefaults(t *testing.T) {
	want := &GPUTopologyArgs{
		NUMAPolicy: "Prefer", NodePacking: "Pack", ReconcilePeriod: &metav1.Duration{Duration: time.Minute},
		ForceDeleteCooling: &metav1.Duration{Duration: 5 * time.Second}, AdmissionFailures: new(int32(3)), AdmissionCooling: &metav1.Duration{Duration: 5 * time.Minute},
	}
	if diff := cmp.Diff(want, defaults()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := Validate(defaults()); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
	set := &GPUTopologyArgs{
		NUMAPolicy: "None", NodePacking: "Spread", RecordDialects: []string{"hami"}, Bandwidths: map[string]float64{"pcieGen5": 45},
		ReconcilePeriod: &metav1.Duration{Duration: time.Second}, TopologyMaxAge: metav1.Duration{Duration: time.Hour},
		ForceDeleteCooling: &metav1.Duration{}, AdmissionFailures: new(int32(0)), AdmissionCooling: &metav1.Duration{Duration: time.Second},
	}
	kept := set.DeepCopy()
	SetDefaults(set)
	if diff := cmp.Diff(kept, set); diff != "" {
		t.Errorf("what was set is changed (-before +after):\n%s", diff)
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		change func(*GPUTopologyArgs)
		want   []string // fields
	}{
		"defaults":     {func(*GPUTopologyArgs) {}, nil},
		"all dialects": {func(a *GPUTopologyArgs) { a.RecordDialects = []string{"volcano", "hami", "koordinator"} }, nil},
		"every rate": {func(a *GPUTopologyArgs) {
			a.Bandwidths = map[string]float64{
				"nvlinkPascal": 18, "nvlinkVolta": 20, "nvlinkAmpere": 20, "nvlinkGA10x": 12, "nvlinkHopper": 20.6, "nvlinkBlackwell": 40.1,
				"nvlinkOther": 12, "pcieGen3": 12, "pcieGen4": 24, "pcieGen5": 48, "pcieGen6": 96, "unknownLink": 1,
			}
		}, nil},
		"not defaulted":          {func(a *GPUTopologyArgs) { *a = GPUTopologyArgs{} }, []string{"numaPolicy", "nodePacking", "reconcilePeriod", "admissionCooling"}},
		"sweeps without a pause": {func(a *GPUTopologyArgs) { a.ReconcilePeriod.Duration = 0 }, []string{"reconcilePeriod"}},
		"avoided for no time":    {func(a *GPUTopologyArgs) { a.AdmissionCooling.Duration = 0 }, []string{"admissionCooling"}},
		"what may be off": {func(a *GPUTopologyArgs) {
			a.TopologyMaxAge.Duration, a.ForceDeleteCooling.Duration, *a.AdmissionFailures = 0, 0, 0
		}, nil},
		"sweeps all the time": {func(a *GPUTopologyArgs) { a.ReconcilePeriod.Duration = time.Millisecond }, []string{"reconcilePeriod"}},
		"sweeps hardly ever":  {func(a *GPUTopologyArgs) { a.ReconcilePeriod.Duration = math.MaxInt64 }, []string{"reconcilePeriod"}},
		"negative ages": {func(a *GPUTopologyArgs) {
			a.TopologyMaxAge.Duration, a.ForceDeleteCooling, a.AdmissionFailures, a.AdmissionCooling.Duration = -1, &metav1.Duration{Duration: -1}, new(int32(-1)), -1
		}, []string{"topologyMaxAge", "forceDeleteCooling", "admissionFailures", "admissionCooling"}},
		"policy in lower case": {func(a *GPUTopologyArgs) { a.NUMAPolicy = "prefer" }, []string{"numaPolicy"}},
		"policy with a blank":  {func(a *GPUTopologyArgs) { a.NUMAPolicy = "Prefer " }, []string{"numaPolicy"}},
		"unknown packing":      {func(a *GPUTopologyArgs) { a.NodePacking = "bin-pack " }, []string{"nodePacking"}},
		"unknown dialect":      {func(a *GPUTopologyArgs) { a.RecordDialects = []string{"hami", "HAMi", ""} }, []string{"recordDialects[1]", "recordDialects[2]"}},
		"dialect twice":        {func(a *GPUTopologyArgs) { a.RecordDialects = []string{"hami", "volcano", "hami"} }, []string{"recordDialects[2]"}},
		"unknown rate":         {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen7": 1, "NVLink": 1} }, []string{"bandwidths[NVLink]", "bandwidths[pcieGen7]"}},
		"rate 0":               {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen5": 0} }, []string{"bandwidths[pcieGen5]"}},
		"rate below 1 MB/s":    {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen5": 0.0009} }, []string{"bandwidths[pcieGen5]"}},
		"negative rate":        {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen5": -1} }, []string{"bandwidths[pcieGen5]"}},
		"rate NaN":             {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen5": math.NaN()} }, []string{"bandwidths[pcieGen5]"}},
		"rate Inf":             {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen5": math.Inf(1)} }, []string{"bandwidths[pcieGen5]"}},
		"rate 1e308":           {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"nvlinkHopper": 1e308} }, []string{"bandwidths[nvlinkHopper]"}},
		"unknown links win":    {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"unknownLink": 10} }, []string{"bandwidths"}},
		"a slot below unknown": {func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen3": 1} }, []string{"bandwidths"}},
		"everything at a time": {func(a *GPUTopologyArgs) { a.NUMAPolicy, a.NodePacking, a.RecordDialects = "x", "y", []string{"z"} }, []string{"numaPolicy", "nodePacking", "recordDialects[0]"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			args := defaults()
			tt.change(args)
			var got []string
			for _, e := range ValidateArgs(nil, args) {
				got = append(got, e.Field)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			err := Validate(args)
			if (err != nil) != (tt.want != nil) {
				t.Fatalf("Validate: %v", err)
			}
			if _, ratesErr := args.Rates(); (ratesErr != nil) != (tt.want != nil) {
				t.Errorf("Rates: %v, Validate: %v", ratesErr, err)
			}
			for _, f := range tt.want {
				if !strings.Contains(err.Error(), f) {
					t.Errorf("the message %q does not name %s", err, f)
				}
			}
		})
	}
}

func TestValidateArgsAtPath(t *testing.T) {
	args := defaults()
	args.NodePacking = "x"
	errs := ValidateArgs(field.NewPath("profiles").Index(0).Child("args"), args)
	if len(errs) != 1 || errs[0].Field != "profiles[0].args.nodePacking" {
		t.Errorf("errors %v", errs)
	}
}

func TestRates(t *testing.T) {
	args := defaults()
	got, err := args.Rates()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(topology.DefaultRates(), got); diff != "" {
		t.Errorf("without overrides (-want +got):\n%s", diff)
	}
	args.Bandwidths = map[string]float64{"pcieGen5": 45.5, "nvlinkHopper": 25}
	if got, err = args.Rates(); err != nil {
		t.Fatal(err)
	}
	want := topology.DefaultRates()
	want.PCIe.Gen5, want.NVLink.Hopper = 45_500, 25_000
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("with overrides (-want +got):\n%s", diff)
	}
}

// TestBandwidthNames holds that every name sets one rate and no two set the same.
func TestBandwidthNames(t *testing.T) {
	seen := map[string]string{}
	for _, name := range BandwidthNames() {
		changed := cmp.Diff(topology.DefaultRates(), (&GPUTopologyArgs{Bandwidths: map[string]float64{name: 7}}).rates())
		if first, ok := seen[changed]; ok || changed == "" {
			t.Errorf("%s sets nothing, or what %q sets:\n%s", name, first, changed)
		}
		seen[changed] = name
	}
	if len(seen) != len(bandwidths) {
		t.Errorf("%d rates for %d names", len(seen), len(bandwidths))
	}
}

func TestRequestDefaults(t *testing.T) {
	for policy, want := range map[NUMAPolicy]allocate.NUMAPolicy{
		NUMAPolicyNone: allocate.NUMANone, NUMAPolicyPrefer: allocate.NUMAPrefer, NUMAPolicyRequire: allocate.NUMARequire, "": allocate.NUMAPrefer,
	} {
		got := (&GPUTopologyArgs{NUMAPolicy: policy}).RequestDefaults()
		if diff := cmp.Diff(allocate.Request{NUMA: want}, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", policy, diff)
		}
	}
}

func TestDeepCopy(t *testing.T) {
	args := &GPUTopologyArgs{NUMAPolicy: "None", RecordDialects: []string{"hami"}, Bandwidths: map[string]float64{"pcieGen5": 45}}
	same := args.DeepCopy()
	other, ok := args.DeepCopyObject().(*GPUTopologyArgs)
	if !ok {
		t.Fatal("DeepCopyObject returns another type")
	}
	other.RecordDialects[0], other.Bandwidths["pcieGen5"] = "volcano", 1
	if diff := cmp.Diff(same, args); diff != "" {
		t.Errorf("a change of the copy shows in the original (-want +got):\n%s", diff)
	}
	var none *GPUTopologyArgs
	if none.DeepCopy() != nil || none.DeepCopyObject() != nil {
		t.Error("a copy of nil is not nil")
	}
}
