package request

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
)

const gib = int64(1) << 30

func wholes(name string, n int) allocate.Claim {
	return allocate.Claim{Container: name, Kind: allocate.KindWhole, Count: n}
}

func share(name string, n int, vram int64, milli int32) allocate.Claim {
	return allocate.Claim{Container: name, Kind: allocate.KindShare, Count: n, VRAMBytes: vram, ComputeMilli: milli}
}

func part(name string, n int, fraction int64, milli int32) allocate.Claim {
	return allocate.Claim{Container: name, Kind: allocate.KindShare, Count: n, FractionPPB: fraction, ComputeMilli: milli}
}

func instances(name, profile string, n int) allocate.Claim {
	return allocate.Claim{Container: name, Kind: allocate.KindMIG, Count: n, Profile: profile}
}

func TestFromPod(t *testing.T) {
	tests := map[string]struct {
		pod  *v1.Pod
		want []allocate.Claim
	}{
		"no pod":                        {nil, nil},
		"no GPU":                        {podOf(box("x", "cpu=1", "memory=1Gi")), nil},
		"no containers":                 {podOf(), nil},
		"other resource of NVIDIA":      {podOf(box("x", "nvidia.com/hostdev=1", "nvidia.com/priority=1")), nil},
		"whole cards":                   {podOf(box("x", "nvidia.com/gpu=4", "cpu=1")), []allocate.Claim{wholes("x", 4)}},
		"all cards of the largest node": {podOf(box("x", "nvidia.com/gpu=64")), []allocate.Claim{wholes("x", 64)}},
		"two containers":                {podOf(box("x", "nvidia.com/gpu=1"), box("y"), box("z", "nvidia.com/gpu=2")), []allocate.Claim{wholes("x", 1), wholes("z", 2)}},
		"memory":                        {podOf(box("x", "gputopology.io/vram=20Gi")), []allocate.Claim{share("x", 1, 20*gib, 0)}},
		"memory on cards with compute": {
			annotate(podOf(box("x", "gputopology.io/vram=20Gi"), box("y", "gputopology.io/vram=1Gi")), "gputopology.io/vram-cards=2", "gputopology.io/compute-milli=250"),
			[]allocate.Claim{share("x", 2, 20*gib, 250), share("y", 2, gib, 250)},
		},
		"empty annotations":             {annotate(podOf(box("x", "gputopology.io/vram=1Gi")), "gputopology.io/vram-cards=", "gputopology.io/compute-milli="), []allocate.Claim{share("x", 1, gib, 0)}},
		"no compute promised":           {annotate(podOf(box("x", "gputopology.io/vram=1Gi")), "gputopology.io/compute-milli=0"), []allocate.Claim{share("x", 1, gib, 0)}},
		"refinements of no memory":      {annotate(podOf(box("x", "gputopology.io/vram=0")), "gputopology.io/vram-cards=2", "gputopology.io/compute-milli=5"), nil},
		"no cards of no memory":         {annotate(podOf(box("x", "gputopology.io/vram=0")), "gputopology.io/vram-cards=0"), nil},
		"HAMi memory":                   {podOf(box("x", "nvidia.com/gpu=2", "nvidia.com/gpumem=3000")), []allocate.Claim{share("x", 2, 3000*mib, 0)}},
		"HAMi memory on the default":    {podOf(box("x", "nvidia.com/gpumem=3k")), []allocate.Claim{share("x", 1, 3000*mib, 0)}},
		"HAMi percent and cores":        {podOf(box("x", "nvidia.com/gpu=1", "nvidia.com/gpumem-percentage=30", "nvidia.com/gpucores=25")), []allocate.Claim{part("x", 1, 300_000_000, 250)}},
		"HAMi cores alone":              {podOf(box("x", "nvidia.com/gpu=1", "nvidia.com/gpucores=50")), []allocate.Claim{part("x", 1, 1_000_000_000, 500)}},
		"HAMi zeros are whole cards":    {podOf(box("x", "nvidia.com/gpu=1", "nvidia.com/gpumem=0", "nvidia.com/gpucores=0")), []allocate.Claim{wholes("x", 1)}},
		"HAMi and ours say the same":    {podOf(box("x", "nvidia.com/gpu=1", "nvidia.com/gpumem=1024", "gputopology.io/vram=1Gi")), []allocate.Claim{share("x", 1, gib, 0)}},
		"HAMi beside ours":              {podOf(box("x", "nvidia.com/gpumem=1024"), box("y", "gputopology.io/vram=1Gi")), []allocate.Claim{share("x", 1, gib, 0), share("y", 1, gib, 0)}},
		"KAI fraction":                  {annotate(podOf(box("x"), box("y")), "gpu-fraction=0.5"), []allocate.Claim{part("x", 1, 500_000_000, 0)}},
		"KAI fraction of several cards": {annotate(podOf(box("x")), "gpu-fraction=0.25", "gpu-fraction-num-devices=3"), []allocate.Claim{part("x", 3, 250_000_000, 0)}},
		"KAI fraction 1 is a card":      {annotate(podOf(box("x")), "gpu-fraction=1.00"), []allocate.Claim{wholes("x", 1)}},
		"KAI fraction 0":                {annotate(podOf(box("x")), "gpu-fraction=0.0", "gpu-fraction-num-devices=2"), nil},
		"KAI memory":                    {annotate(podOf(box("x")), "gpu-memory=2000"), []allocate.Claim{share("x", 1, 2000*mib, 0)}},
		"KAI memory for a container":    {annotate(podOf(box("x"), box("y")), "gpu-memory=2000", "gpu-fraction-container-name=y"), []allocate.Claim{share("y", 1, 2000*mib, 0)}},
		"KAI and HAMi say the same":     {annotate(podOf(box("x", "nvidia.com/gpumem-percentage=50")), "gpu-fraction=.5"), []allocate.Claim{part("x", 1, 500_000_000, 0)}},
		"KAI name without a wish":       {annotate(podOf(box("x")), "gpu-fraction-container-name=y"), nil},
		"MIG":                           {podOf(box("x", "nvidia.com/mig-2g.20gb=1", "nvidia.com/mig-1g.10gb.me=2")), []allocate.Claim{instances("x", "1g.10gb+me", 2), instances("x", "2g.20gb", 1)}},
		"MIG beside a card":             {podOf(box("x", "nvidia.com/gpu=1", "nvidia.com/mig-1g.10gb=1")), []allocate.Claim{wholes("x", 1), instances("x", "1g.10gb", 1)}},
		"no MIG":                        {podOf(box("x", "nvidia.com/mig-1g.10gb=0")), nil},
		"limits only":                   {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: list("nvidia.com/gpu=2")}}), []allocate.Claim{wholes("x", 2)}},
		"requests only":                 {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Requests: list("nvidia.com/gpu=2")}}), []allocate.Claim{wholes("x", 2)}},
		"equal in other spelling": {
			podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: list("gputopology.io/vram=1Gi"), Requests: list("gputopology.io/vram=1073741824")}}),
			[]allocate.Claim{share("x", 1, gib, 0)},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			before := tt.pod.DeepCopy()
			got, err := FromPod(tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			var want *allocate.Request
			if tt.want != nil {
				want = &allocate.Request{Claims: tt.want}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("FromPod (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.pod); diff != "" {
				t.Errorf("FromPod changed the pod (-before +after):\n%s", diff)
			}
		})
	}
}

func TestFromPodPhases(t *testing.T) {
	pod := withInit(podOf(box("main", "nvidia.com/gpu=4"), box("log")),
		box("setup"), sidecar(box("proxy", "nvidia.com/gpu=1")), box("load", "nvidia.com/gpu=2"))
	never := v1.ContainerRestartPolicyNever
	pod.Spec.InitContainers[2].RestartPolicy = &never
	got, err := FromPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	proxy, load := wholes("proxy", 1), wholes("load", 2)
	proxy.Phase, load.Phase = allocate.PhaseSidecar, allocate.PhaseInit
	want := &allocate.Request{Claims: []allocate.Claim{proxy, load, wholes("main", 4)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFromPodIgnores(t *testing.T) {
	pod := podOf(box("x", "cpu=1"))
	pod.Spec.Overhead = list("nvidia.com/gpu=1")
	pod.Spec.Resources = &v1.ResourceRequirements{Limits: list("nvidia.com/gpu=1")}
	pod.Spec.EphemeralContainers = []v1.EphemeralContainer{{EphemeralContainerCommon: v1.EphemeralContainerCommon{
		Name: "debug", Resources: v1.ResourceRequirements{Limits: list("nvidia.com/gpu=1")},
	}}}
	if got, err := FromPod(pod); got != nil || err != nil {
		t.Errorf("FromPod = %+v, %v, want nothing", got, err)
	}
	if cards, mig := FromPodForeign(pod); cards != 0 || mig != nil {
		t.Errorf("FromPodForeign = %d, %v, want nothing", cards, mig)
	}
}

func TestFromPodRefuses(t *testing.T) {
	differ := func(limit, request string) *v1.Pod {
		return podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: list(limit), Requests: list(request)}})
	}
	tests := map[string]struct {
		pod       *v1.Pod
		wantField string
		wantValue string
	}{
		"negative cards":              {podOf(box("x", "nvidia.com/gpu=-1")), "spec.containers{x}.resources.limits[nvidia.com/gpu]", "-1"},
		"half a card":                 {podOf(box("x", "nvidia.com/gpu=500m")), "spec.containers{x}.resources.limits[nvidia.com/gpu]", "500m"},
		"65 cards":                    {podOf(box("x", "nvidia.com/gpu=65")), "spec.containers{x}.resources.limits[nvidia.com/gpu]", "65"},
		"513 instances":               {podOf(box("x", "nvidia.com/mig-1g.10gb=513")), "spec.containers{x}.resources.limits[nvidia.com/mig-1g.10gb]", "513"},
		"no profile":                  {podOf(box("x", "nvidia.com/mig-=1")), "spec.containers{x}.resources.limits[nvidia.com/mig-]", "1"},
		"in an init container":        {withInit(podOf(box("x")), box("i", "nvidia.com/gpu=-1")), "spec.initContainers{i}.resources.limits[nvidia.com/gpu]", "-1"},
		"limit and request differ":    {differ("nvidia.com/gpu=2", "nvidia.com/gpu=1"), "spec.containers{x}.resources.requests[nvidia.com/gpu]", "1"},
		"misspelled resource":         {podOf(box("x", "gputopology.io/vrma=1Gi")), "spec.containers{x}.resources.limits[gputopology.io/vrma]", "gputopology.io/vrma"},
		"negative request":            {differ("nvidia.com/gpu=0", "nvidia.com/gpu=-1"), "spec.containers{x}.resources.requests[nvidia.com/gpu]", "-1"},
		"no cards of some memory":     {annotate(podOf(box("x", "gputopology.io/vram=1Gi")), "gputopology.io/vram-cards=0"), "metadata.annotations[gputopology.io/vram-cards]", "0"},
		"65 cards of some memory":     {annotate(podOf(box("x", "gputopology.io/vram=1Gi")), "gputopology.io/vram-cards=65"), "metadata.annotations[gputopology.io/vram-cards]", "65"},
		"cards without memory":        {annotate(podOf(box("x")), "gputopology.io/vram-cards=2"), "metadata.annotations[gputopology.io/vram-cards]", "2"},
		"compute without memory":      {annotate(podOf(box("x", "nvidia.com/gpu=1")), "gputopology.io/compute-milli=500"), "metadata.annotations[gputopology.io/compute-milli]", "500"},
		"compute 1001":                {annotate(podOf(box("x", "gputopology.io/vram=1Gi")), "gputopology.io/compute-milli=1001"), "metadata.annotations[gputopology.io/compute-milli]", "1001"},
		"compute 0.5":                 {annotate(podOf(box("x", "gputopology.io/vram=1Gi")), "gputopology.io/compute-milli=0.5"), "metadata.annotations[gputopology.io/compute-milli]", "0.5"},
		"whole and memory":            {podOf(box("x", "nvidia.com/gpu=1", "gputopology.io/vram=1Gi")), "spec.containers{x}.resources.limits[nvidia.com/gpu]", "1"},
		"HAMi and ours differ":        {podOf(box("x", "nvidia.com/gpumem=1025", "gputopology.io/vram=1Gi")), "spec.containers{x}.resources.limits[nvidia.com/gpumem]", "1025"},
		"HAMi memory twice":           {podOf(box("x", "nvidia.com/gpumem=1025", "nvidia.com/gpumem-percentage=10")), "spec.containers{x}.resources.limits[nvidia.com/gpumem-percentage]", "10"},
		"HAMi memory on no card":      {podOf(box("x", "nvidia.com/gpu=0", "nvidia.com/gpumem=1")), "spec.containers{x}.resources.limits[nvidia.com/gpu]", "0"},
		"HAMi 101 percent":            {podOf(box("x", "nvidia.com/gpumem-percentage=101")), "spec.containers{x}.resources.limits[nvidia.com/gpumem-percentage]", "101"},
		"HAMi half a percent":         {podOf(box("x", "nvidia.com/gpumem-percentage=500m")), "spec.containers{x}.resources.limits[nvidia.com/gpumem-percentage]", "500m"},
		"HAMi 101 cores":              {podOf(box("x", "nvidia.com/gpucores=101")), "spec.containers{x}.resources.limits[nvidia.com/gpucores]", "101"},
		"HAMi choice of cards":        {annotate(podOf(box("x", "nvidia.com/gpu=1")), "nvidia.com/use-gpuuuid=GPU-1"), "metadata.annotations[nvidia.com/use-gpuuuid]", "GPU-1"},
		"HAMi numa-bind yes":          {annotate(podOf(box("x", "nvidia.com/gpu=1")), "nvidia.com/numa-bind=yes"), "metadata.annotations[nvidia.com/numa-bind]", "yes"},
		"HAMi numa-bind and none":     {annotate(podOf(box("x", "nvidia.com/gpu=1")), "nvidia.com/numa-bind=true", "gputopology.io/numa-policy=none"), "metadata.annotations[nvidia.com/numa-bind]", "true"},
		"KAI fraction and memory":     {annotate(podOf(box("x")), "gpu-fraction=0.5", "gpu-memory=1"), "metadata.annotations[gpu-memory]", "1"},
		"KAI fraction over 1":         {annotate(podOf(box("x")), "gpu-fraction=1.0000000001"), "metadata.annotations[gpu-fraction]", "1.0000000001"},
		"KAI fraction and whole":      {annotate(podOf(box("x", "nvidia.com/gpu=1")), "gpu-fraction=0.5"), "spec.containers{x}.resources.limits[nvidia.com/gpu]", "1"},
		"KAI and another container":   {annotate(podOf(box("x"), box("y", "nvidia.com/gpu=1")), "gpu-fraction=0.5"), "metadata.annotations[gpu-fraction]", "0.5"},
		"KAI cards without a wish":    {annotate(podOf(box("x")), "gpu-fraction-num-devices=2"), "metadata.annotations[gpu-fraction-num-devices]", "2"},
		"KAI fraction of no card":     {annotate(podOf(box("x")), "gpu-fraction=0.5", "gpu-fraction-num-devices=0"), "metadata.annotations[gpu-fraction-num-devices]", "0"},
		"KAI fraction of 1.5 cards":   {annotate(podOf(box("x")), "gpu-fraction=0.5", "gpu-fraction-num-devices=1.5"), "metadata.annotations[gpu-fraction-num-devices]", "1.5"},
		"KAI unknown container":       {annotate(podOf(box("x")), "gpu-fraction=0.5", "gpu-fraction-container-name=z"), "metadata.annotations[gpu-fraction-container-name]", "z"},
		"KAI without containers":      {annotate(podOf(), "gpu-fraction=0.5"), "metadata.annotations[gpu-fraction]", "0.5"},
		"unknown NIC policy":          {annotate(podOf(box("x", "nvidia.com/gpu=1")), "gputopology.io/nic-proximity=Require"), "metadata.annotations[gputopology.io/nic-proximity]", "Require"},
		"an exponent beyond measure":  {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpumem": *resource.NewScaledQuantity(1, 2_000_000_000)}}}), "spec.containers{x}.resources.limits[nvidia.com/gpumem]", "1e2000000000"},
		"a fraction beyond measure":   {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpumem": *resource.NewScaledQuantity(1, -2_000_000_000)}}}), "spec.containers{x}.resources.limits[nvidia.com/gpumem]", "1e-2000000000"},
		"two differ beyond measure":   {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: list("nvidia.com/gpu=1"), Requests: v1.ResourceList{"nvidia.com/gpu": *resource.NewScaledQuantity(1, 2_000_000_000)}}}), "spec.containers{x}.resources.requests[nvidia.com/gpu]", "1e2000000000"},
		"negative beyond measure":     {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpu": *resource.NewScaledQuantity(-1, 2_000_000_000)}}}), "spec.containers{x}.resources.limits[nvidia.com/gpu]", "-1e2000000000"},
		"the first error by position": {podOf(box("x", "nvidia.com/gpu=1"), box("y", "nvidia.com/gpu=-2"), box("z", "nvidia.com/gpu=-3")), "spec.containers{y}.resources.limits[nvidia.com/gpu]", "-2"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := FromPod(tt.pod)
			var invalid *InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("FromPod = %+v, error %v (%T), want an *InvalidError", got, err, err)
			}
			if diff := cmp.Diff([]string{tt.wantField, tt.wantValue}, []string{invalid.Field, invalid.Value}); diff != "" {
				t.Errorf("field and value (-want +got):\n%s\n%v", diff, err)
			}
			if cards, _ := FromPodForeign(tt.pod); cards < 1 {
				t.Errorf("FromPodForeign charges %d cards for a wish that cannot be understood", cards)
			}
		})
	}
}

// TestDisagreementNamesBoth holds that the message shows both sides.
func TestDisagreementNamesBoth(t *testing.T) {
	_, err := FromPod(podOf(box("x", "nvidia.com/gpumem=1025", "gputopology.io/vram=1Gi")))
	want := `spec.containers{x}.resources.limits[nvidia.com/gpumem]: "1025": disagrees with spec.containers{x}.resources.limits[gputopology.io/vram], which is "1Gi"`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant  %s", err, want)
	}
}

func TestPolicies(t *testing.T) {
	tests := map[string]struct {
		annotations []string
		defaults    allocate.Request
		wantNUMA    allocate.NUMAPolicy
		wantNIC     allocate.NICPolicy
	}{
		"defaults":             {},
		"configured default":   {defaults: allocate.Request{NUMA: allocate.NUMARequire}, wantNUMA: allocate.NUMARequire},
		"empty is the default": {annotations: []string{"gputopology.io/numa-policy=", "gputopology.io/nic-proximity="}, defaults: allocate.Request{NUMA: allocate.NUMANone}, wantNUMA: allocate.NUMANone},
		"pod before default":   {annotations: []string{"gputopology.io/numa-policy=none"}, defaults: allocate.Request{NUMA: allocate.NUMARequire}, wantNUMA: allocate.NUMANone},
		"prefer":               {annotations: []string{"gputopology.io/numa-policy=prefer", "gputopology.io/nic-proximity=prefer"}, defaults: allocate.Request{NUMA: allocate.NUMANone}, wantNUMA: allocate.NUMAPrefer, wantNIC: allocate.NICPrefer},
		"require":              {annotations: []string{"gputopology.io/numa-policy=require", "gputopology.io/nic-proximity=require"}, wantNUMA: allocate.NUMARequire, wantNIC: allocate.NICRequire},
		"NIC none":             {annotations: []string{"gputopology.io/nic-proximity=none"}, defaults: allocate.Request{NIC: allocate.NICRequire}},
		"NIC default":          {defaults: allocate.Request{NIC: allocate.NICPrefer}, wantNIC: allocate.NICPrefer},
		"HAMi binds":           {annotations: []string{"nvidia.com/numa-bind=true"}, defaults: allocate.Request{NUMA: allocate.NUMANone}, wantNUMA: allocate.NUMARequire},
		"HAMi does not bind":   {annotations: []string{"nvidia.com/numa-bind=false"}, defaults: allocate.Request{NUMA: allocate.NUMANone}, wantNUMA: allocate.NUMANone},
		"HAMi and ours agree":  {annotations: []string{"nvidia.com/numa-bind=true", "gputopology.io/numa-policy=require"}, wantNUMA: allocate.NUMARequire},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := FromPodWithDefaults(annotate(podOf(box("x", "nvidia.com/gpu=1")), tt.annotations...), tt.defaults)
			if err != nil {
				t.Fatal(err)
			}
			want := &allocate.Request{Claims: []allocate.Claim{wholes("x", 1)}, NUMA: tt.wantNUMA, NIC: tt.wantNIC}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
