package config

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"
)

// decode reads a configuration in the way of kube-scheduler's --config.
func decode(text string) (*schedulerconfig.KubeSchedulerConfiguration, error) {
	object, gvk, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	cfg, ok := object.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("the text holds a %T", object)
	}
	cfg.APIVersion = gvk.GroupVersion().String()
	return cfg, nil
}

// encode writes a configuration in the way in which kube-scheduler logs it.
func encode(cfg *schedulerconfig.KubeSchedulerConfiguration) (string, error) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeYAML)
	var out bytes.Buffer
	err := scheme.Codecs.EncoderForVersion(info.Serializer, schedulerv1.SchemeGroupVersion).Encode(cfg, &out)
	return out.String(), err
}

// configuration has one profile that enables the plugin, with these args; without any if args is empty.
func configuration(args string) string {
	text := `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: gpu-topology-scheduler
    plugins: {preFilter: {enabled: [{name: GPUTopology}]}}
`
	if args != "" {
		text += "    pluginConfig:\n      - name: GPUTopology\n        args: " + args + "\n"
	}
	return text
}

func argsOf(t *testing.T, cfg *schedulerconfig.KubeSchedulerConfiguration) *GPUTopologyArgs {
	t.Helper()
	for _, p := range cfg.Profiles[0].PluginConfig {
		if p.Name == "GPUTopology" {
			args, ok := p.Args.(*GPUTopologyArgs)
			if !ok {
				t.Fatalf("the args are of type %T", p.Args)
			}
			return args
		}
	}
	t.Fatal("the profile has no args for GPUTopology")
	return nil
}

func TestDecode(t *testing.T) {
	full := GPUTopologyArgs{
		NUMAPolicy: NUMAPolicyRequire, NodePacking: NodePackingSpread, RecordDialects: []string{"hami", "volcano"},
		Bandwidths:      map[string]float64{"pcieGen5": 45.5},
		ReconcilePeriod: &metav1.Duration{Duration: 30 * time.Second}, TopologyMaxAge: metav1.Duration{Duration: time.Hour},
		ForceDeleteCooling: &metav1.Duration{}, AdmissionFailures: new(int32(0)), AdmissionCooling: &metav1.Duration{Duration: time.Minute},
	}
	const fields = `numaPolicy: Require, nodePacking: Spread, recordDialects: [hami, volcano], bandwidths: {pcieGen5: 45.5}, ` +
		`reconcilePeriod: 30s, topologyMaxAge: 1h, forceDeleteCooling: 0s, admissionFailures: 0, admissionCooling: 1m`
	with := func(change func(*GPUTopologyArgs)) GPUTopologyArgs {
		args := defaults()
		change(args)
		return *args
	}
	tests := map[string]struct {
		args string
		want GPUTopologyArgs
	}{
		"no args":                    {``, *defaults()},
		"empty args":                 {`{}`, *defaults()},
		"kind and version alone":     {`{apiVersion: kubescheduler.config.k8s.io/v1, kind: GPUTopologyArgs}`, *defaults()},
		"kind without version":       {`{kind: GPUTopologyArgs}`, *defaults()},
		"all without kind":           {`{` + fields + `}`, full},
		"all with kind and version":  {`{apiVersion: kubescheduler.config.k8s.io/v1, kind: GPUTopologyArgs, ` + fields + `}`, full},
		"defaults beside a field":    {`{nodePacking: Spread}`, with(func(a *GPUTopologyArgs) { a.NodePacking = "Spread" })},
		"a whole number as the rate": {`{bandwidths: {pcieGen5: 45}}`, with(func(a *GPUTopologyArgs) { a.Bandwidths = map[string]float64{"pcieGen5": 45} })},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, err := decode(configuration(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			got := argsOf(t, cfg).DeepCopy()
			got.TypeMeta = metav1.TypeMeta{}
			if diff := cmp.Diff(&tt.want, got); diff != "" {
				t.Errorf("args (-want +got):\n%s", diff)
			}
			if err := Validate(got); err != nil {
				t.Error(err)
			}
			text, err := encode(cfg)
			if err != nil {
				t.Fatalf("the configuration cannot be printed: %v", err)
			}
			again, err := decode(text)
			if err != nil {
				t.Fatalf("what was printed cannot be read: %v\n%s", err, text)
			}
			if diff := cmp.Diff(argsOf(t, cfg), argsOf(t, again)); diff != "" {
				t.Errorf("args after printing and reading (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	tests := map[string]struct {
		args string
		want []string
	}{
		"unknown field":         {`{numaPolicy: None, numaPolcy: None}`, []string{"GPUTopology", `unknown field "numaPolcy"`}},
		"field in another case": {`{NUMAPolicy: None}`, []string{`unknown field "NUMAPolicy"`}},
		"field twice":           {`{nodePacking: Pack, nodePacking: Spread}`, []string{"nodePacking"}},
		"list as text":          {`{recordDialects: hami}`, []string{"recordDialects"}},
		"map as list":           {`{bandwidths: [pcieGen5]}`, []string{"bandwidths"}},
		"text as rate":          {`{bandwidths: {pcieGen5: fast}}`, []string{"bandwidths"}},
		"NaN as rate":           {`{bandwidths: {pcieGen5: .nan}}`, []string{"NaN"}},
		"number as policy":      {`{numaPolicy: 1}`, []string{"numaPolicy"}},
		"args of another":       {`{apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs}`, []string{"GPUTopology", "InterPodAffinityArgs"}},
		"another version":       {`{apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: GPUTopologyArgs}`, []string{"GPUTopologyArgs", "v1beta3"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cfg, err := decode(configuration(tt.args))
			if err == nil {
				t.Fatalf("accepted as %+v", argsOf(t, cfg))
			}
			for _, part := range tt.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the message %q does not hold %q", err, part)
				}
			}
		})
	}
}

// TestAddToScheme holds that a scheme of one's own gets kinds and defaults too, and that entering them twice is harmless.
func TestAddToScheme(t *testing.T) {
	s := runtime.NewScheme()
	for range 2 {
		if err := AddToScheme(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, version := range []string{"v1", runtime.APIVersionInternal} {
		object, err := s.New(schedulerv1.SchemeGroupVersion.WithKind("GPUTopologyArgs").GroupKind().WithVersion(version))
		if err != nil {
			t.Fatal(err)
		}
		s.Default(object)
		if diff := cmp.Diff(runtime.Object(defaults()), object); diff != "" {
			t.Errorf("version %s (-want +got):\n%s", version, diff)
		}
	}
}

// TestZeroIsNotAbsent: no zero becomes a default.
func TestZeroIsNotAbsent(t *testing.T) {
	for _, name := range []string{"reconcilePeriod", "admissionCooling"} {
		refused(t, configuration("{"+name+": 0s}"), name)
	}
	cfg, err := decode(configuration(`{topologyMaxAge: 0s, forceDeleteCooling: 0s, admissionFailures: 0}`))
	if err != nil {
		t.Fatal(err)
	}
	args := argsOf(t, cfg)
	if err := Validate(args); err != nil {
		t.Error(err)
	}
	if args.TopologyMaxAge.Duration != 0 || args.ForceDeleteCooling.Duration != 0 || *args.AdmissionFailures != 0 {
		t.Errorf("what 0 turns off is on: %+v", args)
	}
}
