package request

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

// outcome is what one value may come to: some bytes, nothing, or a refusal.
type outcome struct {
	bytes   int64
	refused bool
}

// TestCaseB107 holds that no spelling of an amount of memory shrinks on its way: it is exact in whole MiB, rounded up, or
// refused; only 0 and "" are nothing.
func TestCaseB107(t *testing.T) {
	refused := outcome{refused: true}
	// By resource, in bytes and in MiB. The API server would refuse some of these for an extended resource.
	quantities := map[string]struct{ asBytes, asMiB outcome }{
		"16Gi":                 {outcome{bytes: 16 << 30}, refused}, // 16 Gi MiB are 16 PiB
		"4Ti":                  {outcome{bytes: 4 << 40}, refused},
		"9223372036854775807":  {refused, refused},
		"1e19":                 {refused, refused},
		"1e30":                 {refused, refused},
		"24576M":               {outcome{bytes: 24576000000/mib*mib + mib}, refused},
		"1500m":                {outcome{bytes: mib}, outcome{bytes: 2 * mib}},
		"0.5":                  {outcome{bytes: mib}, outcome{bytes: mib}},
		"1n":                   {outcome{bytes: mib}, outcome{bytes: mib}},
		"1048577":              {outcome{bytes: 2 * mib}, outcome{bytes: 1048577 * mib}},
		"16777216":             {outcome{bytes: 16 * mib}, outcome{bytes: 16 << 40}},
		"16777217":             {outcome{bytes: 17 * mib}, refused},
		"-1":                   {refused, refused},
		"-1n":                  {refused, refused},
		"0":                    {},
		"0.0":                  {},
		"-9223372036854775808": {refused, refused},
	}
	for value, tt := range quantities {
		t.Run("resource "+value, func(t *testing.T) {
			checkMemory(t, podOf(box("x", "gputopology.io/vram="+value)), tt.asBytes)
			checkMemory(t, podOf(box("x", "nvidia.com/gpumem="+value, "nvidia.com/gpu=1")), tt.asMiB)
		})
	}
	annotations := map[string]outcome{
		"16Gi": refused, "4Ti": refused, "9223372036854775807": refused, "1e19": refused, "24576M": refused, "1500m": refused,
		"0.5": {bytes: mib}, "1.5": {bytes: 2 * mib}, "0.0000000000000000001": {bytes: mib}, "24576": {bytes: 24 << 30},
		"-1": refused, "-0": refused, "+1": refused, " 100 ": refused, "100 ": refused, ".": refused, "1.2.3": refused,
		"0": {}, "0.00": {}, "": {}, "16777216": {bytes: 16 << 40}, "16777216.1": refused,
		strings.Repeat("0", 63) + "7": {bytes: 7 * mib}, strings.Repeat("0", 64) + "7": refused,
	}
	for value, want := range annotations {
		t.Run("annotation "+value, func(t *testing.T) {
			pod := annotate(podOf(box("x")), "gpu-memory="+value)
			if want == (outcome{}) {
				if got, err := FromPod(pod); got != nil || err != nil {
					t.Errorf("FromPod = %+v, %v, want no request", got, err)
				}
				return
			}
			checkMemory(t, pod, want)
		})
	}
}

// checkMemory compares the one claim of a pod; no bytes stand for no memory claimed.
func checkMemory(t *testing.T, pod *v1.Pod, want outcome) {
	t.Helper()
	got, err := FromPod(pod)
	var invalid *InvalidError
	switch {
	case want.refused:
		if !errors.As(err, &invalid) || invalid.Field == "" || invalid.Value == "" || invalid.Reason == "" {
			t.Errorf("FromPod = %+v, %v, want a refusal with field, value and reason", got, err)
		}
		return
	case err != nil:
		t.Errorf("FromPod: %v", err)
		return
	}
	var vram int64
	if got != nil {
		vram = got.Claims[0].VRAMBytes
	}
	if vram != want.bytes {
		t.Errorf("%d bytes are claimed, want %d", vram, want.bytes)
	}
}

// TestCaseB109 holds that numbers which are none are refused in every annotation that is read as a number, with a short
// message that is valid text.
func TestCaseB109(t *testing.T) {
	values := map[string]string{
		"NaN": "NaN", "nan": "nan", "Inf": "Inf", "-Inf": "-Inf", "infinity": "infinity", "1e309": "1e309", "hexadecimal": "0x1p-2",
		"underscore": "1_000", "300 KB": strings.Repeat("9", 300<<10), "300 KB of zeros": "0." + strings.Repeat("0", 300<<10),
		"invalid UTF-8": "\xff0.5\xfe", "other digits": "٠.٥", "a comma": "0,5", "a fraction": "1/2", "a NUL": "1\x00",
	}
	pods := map[string]*v1.Pod{
		"gpu-fraction":                 podOf(box("x")),
		"gpu-memory":                   podOf(box("x")),
		"gpu-fraction-num-devices":     annotate(podOf(box("x")), "gpu-fraction=0.5"),
		"gputopology.io/vram-cards":    podOf(box("x", "gputopology.io/vram=1Gi")),
		"gputopology.io/compute-milli": podOf(box("x", "gputopology.io/vram=1Gi")),
	}
	for key, pod := range pods {
		for name, value := range values {
			t.Run(key+" "+name, func(t *testing.T) {
				got, err := FromPod(annotate(pod.DeepCopy(), key+"="+value))
				var invalid *InvalidError
				if !errors.As(err, &invalid) {
					t.Fatalf("FromPod = %+v, error %v (%T), want an *InvalidError", got, err, err)
				}
				if want := "metadata.annotations[" + key + "]"; invalid.Field != want {
					t.Errorf("field %q, want %q", invalid.Field, want)
				}
				if n := utf8.RuneCountInString(invalid.Value); n > 64 || !strings.HasPrefix(value, invalid.Value) {
					t.Errorf("value %q of %d characters is not the beginning of the input", invalid.Value, n)
				}
				if msg := err.Error(); len(msg) > 512 || !utf8.ValidString(msg) {
					t.Errorf("message of %d bytes, valid text %t: %q", len(msg), utf8.ValidString(msg), msg)
				}
			})
		}
	}
}

// TestCaseB112 holds that an unknown policy is refused with the words that are known, and never replaced by a default.
func TestCaseB112(t *testing.T) {
	for _, key := range []string{"gputopology.io/numa-policy", "gputopology.io/nic-proximity"} {
		for _, value := range []string{"bin-pack ", "require ", " prefer", "REQUIRE", "required", "0", "\xff"} {
			t.Run(key+" "+value, func(t *testing.T) {
				got, err := FromPodWithDefaults(annotate(podOf(box("x", "nvidia.com/gpu=1")), key+"="+value), allocate.Request{NUMA: allocate.NUMANone})
				want := &InvalidError{Field: "metadata.annotations[" + key + "]", Value: value, Reason: "must be one of none, prefer, require"}
				if diff := cmp.Diff(error(want), err); diff != "" || got != nil {
					t.Errorf("request %+v, error (-want +got):\n%s", got, diff)
				}
			})
		}
	}
}

// TestCaseB113 holds that an explicit zero, in every dialect, is no wish for a GPU, like an absent one.
func TestCaseB113(t *testing.T) {
	pods := map[string]*v1.Pod{
		"cards":           podOf(box("x", "nvidia.com/gpu=0")),
		"memory":          podOf(box("x", "gputopology.io/vram=0")),
		"HAMi":            podOf(box("x", "nvidia.com/gpu=0", "nvidia.com/gpumem=0", "nvidia.com/gpumem-percentage=0", "nvidia.com/gpucores=0")),
		"MIG":             podOf(box("x", "nvidia.com/mig-1g.10gb=0")),
		"KAI fraction":    annotate(podOf(box("x")), "gpu-fraction=0"),
		"KAI memory":      annotate(podOf(box("x")), "gpu-memory=0"),
		"KAI both, empty": annotate(podOf(box("x")), "gpu-fraction=", "gpu-memory="),
		"all of them": annotate(podOf(box("x", "nvidia.com/gpu=0", "gputopology.io/vram=0", "nvidia.com/gpumem=0", "nvidia.com/mig-1g.10gb=0")),
			"gpu-fraction=0", "gpu-memory=0", "gputopology.io/vram-cards=0", "gputopology.io/compute-milli=0", "gpu-fraction-num-devices=0"),
	}
	for name, pod := range pods {
		t.Run(name, func(t *testing.T) {
			if got, err := FromPod(pod); got != nil || err != nil {
				t.Errorf("FromPod = %+v, %v, want no request", got, err)
			}
			if cards, mig := FromPodForeign(pod); cards != 0 || mig != nil {
				t.Errorf("FromPodForeign = %d, %v, want nothing", cards, mig)
			}
		})
	}
}

// TestCaseB079 holds that sidecars and init containers are told apart and keep their order, and that a foreign pod is
// charged what the kubelet would hold.
func TestCaseB079(t *testing.T) {
	side, main := sidecar(box("side", "nvidia.com/gpu=4")), box("main", "nvidia.com/gpu=4")
	tests := map[string]struct {
		pod        *v1.Pod
		wantPhases []string
		wantCards  int
	}{
		"init after the sidecar":        {withInit(podOf(main), side, box("init", "nvidia.com/gpu=2")), []string{"side sidecar 4", "init init 2", "main main 4"}, 8},
		"init before the sidecar":       {withInit(podOf(main), box("init", "nvidia.com/gpu=2"), side), []string{"init init 2", "side sidecar 4", "main main 4"}, 8},
		"larger init after the sidecar": {withInit(podOf(main), side, box("init", "nvidia.com/gpu=6")), []string{"side sidecar 4", "init init 6", "main main 4"}, 10},
		"larger init before it":         {withInit(podOf(main), box("init", "nvidia.com/gpu=6"), side), []string{"init init 6", "side sidecar 4", "main main 4"}, 8},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := FromPod(tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.wantPhases, phases(got)); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
			if n := WholeCards(got); n != tt.wantCards {
				t.Errorf("WholeCards = %d, want %d", n, tt.wantCards)
			}
			if cards, _ := FromPodForeign(tt.pod); cards != tt.wantCards {
				t.Errorf("a foreign pod is charged %d cards, want %d", cards, tt.wantCards)
			}
		})
	}
}

func phases(r *allocate.Request) []string {
	words := map[allocate.Phase]string{allocate.PhaseMain: "main", allocate.PhaseInit: "init", allocate.PhaseSidecar: "sidecar"}
	var out []string
	for _, c := range r.Claims {
		out = append(out, fmt.Sprintf("%s %s %d", c.Container, words[c.Phase], c.Count))
	}
	return out
}

// TestCaseB080 holds that what an init container held stays charged to a foreign pod whatever its status says.
func TestCaseB080(t *testing.T) {
	pod := withInit(podOf(box("main", "nvidia.com/gpu=2")), box("init", "nvidia.com/gpu=5"))
	pod.Status.Phase = v1.PodRunning
	pod.Status.InitContainerStatuses = []v1.ContainerStatus{{Name: "init", State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{}}}}
	if cards, _ := FromPodForeign(pod); cards != 5 {
		t.Errorf("charged %d cards, want 5", cards)
	}
}

// TestCaseB082 holds that containers without GPU and ephemeral ones change neither the claims nor whose they are.
func TestCaseB082(t *testing.T) {
	want := []allocate.Claim{share("x", 1, 16000*mib, 0), share("y", 1, 16000*mib, 0)}
	for _, inits := range []int{0, 1, 3} {
		pod := podOf(box("x", "nvidia.com/gpumem=16000"), box("y", "nvidia.com/gpumem=16000"))
		for i := range inits {
			withInit(pod, box(fmt.Sprintf("init-%d", i), "cpu=1"))
		}
		pod.Spec.EphemeralContainers = make([]v1.EphemeralContainer, inits)
		got, err := FromPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Claims); diff != "" {
			t.Errorf("%d init containers (-want +got):\n%s", inits, diff)
		}
	}
}

// TestCaseB085 holds that pods of many GPU containers, some of them with zeros or half-written resources, are read.
func TestCaseB085(t *testing.T) {
	for _, n := range []int{2, 8, 20} {
		pod, want := podOf(), 0
		for i := range n {
			name, c := fmt.Sprintf("c%d", i), v1.Container{}
			switch i % 4 {
			case 0:
				c = box(name, "gputopology.io/vram=1Gi")
			case 1:
				c = box(name, "gputopology.io/vram=0")
			case 2:
				c = v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: list("gputopology.io/vram=1Gi")}}
			case 3:
				c = v1.Container{Name: name, Resources: v1.ResourceRequirements{Limits: list("gputopology.io/vram=1Gi")}}
			}
			if i%4 != 1 {
				want++
			}
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
		got, err := FromPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Claims) != want {
			t.Errorf("%d containers: %d claims, want %d", n, len(got.Claims), want)
		}
		pod.Spec.Containers[n-1].Resources.Limits = v1.ResourceList{"gputopology.io/vram": *resource.NewQuantity(math.MaxInt64, resource.BinarySI)}
		pod.Spec.Containers[n-1].Resources.Requests = nil
		_, err = FromPod(pod)
		var invalid *InvalidError
		if wantField := fmt.Sprintf("spec.containers{c%d}.resources.limits[gputopology.io/vram]", n-1); !errors.As(err, &invalid) || invalid.Field != wantField {
			t.Errorf("%d containers, the last one impossible: error %v, want it to name %s", n, err, wantField)
		}
	}
}

// TestCaseB076Thirds holds that three thirds of a card never exceed it, however many digits they are written with, and
// that what the cut takes away is less than one part in a billion.
func TestCaseB076Thirds(t *testing.T) {
	for digits := 9; digits <= 62; digits++ {
		got, err := FromPod(annotate(podOf(box("x")), "gpu-fraction=0."+strings.Repeat("3", digits)))
		if err != nil {
			t.Fatal(err)
		}
		if fraction := got.Claims[0].FractionPPB; fraction != 333_333_333 {
			t.Errorf("%d digits: %d parts per billion", digits, fraction)
		}
	}
}
