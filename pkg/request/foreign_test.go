package request

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

func TestFromPodForeign(t *testing.T) {
	tests := map[string]struct {
		pod       *v1.Pod
		wantCards int
		wantMIG   []ledger.ProfileCount
	}{
		"no pod":                      {nil, 0, nil},
		"no GPU":                      {podOf(box("x", "cpu=1")), 0, nil},
		"whole cards":                 {podOf(box("x", "nvidia.com/gpu=3"), box("y", "nvidia.com/gpu=1")), 4, nil},
		"a share is a card":           {podOf(box("x", "gputopology.io/vram=1Mi")), 1, nil},
		"shares of cards":             {annotate(podOf(box("x", "gputopology.io/vram=1Mi"), box("y", "gputopology.io/vram=1Mi")), "gputopology.io/vram-cards=3"), 6, nil},
		"HAMi":                        {podOf(box("x", "nvidia.com/gpu=2", "nvidia.com/gpumem=100")), 2, nil},
		"HAMi without a count":        {podOf(box("x", "nvidia.com/gpucores=10")), 1, nil},
		"KAI":                         {annotate(podOf(box("x")), "gpu-fraction=0.1", "gpu-fraction-num-devices=2"), 2, nil},
		"KAI and HAMi on one card":    {annotate(podOf(box("x", "nvidia.com/gpumem-percentage=50")), "gpu-fraction=.5"), 1, nil},
		"MIG by profile":              {podOf(box("x", "nvidia.com/mig-2g.20gb=1", "nvidia.com/mig-1g.10gb=2"), box("y", "nvidia.com/mig-1g.10gb=1")), 0, []ledger.ProfileCount{{Profile: "1g.10gb", Count: 3}, {Profile: "2g.20gb", Count: 1}}},
		"MIG of an init container":    {withInit(podOf(box("x", "nvidia.com/mig-1g.10gb=1")), box("i", "nvidia.com/mig-1g.10gb=4", "nvidia.com/gpu=1")), 1, []ledger.ProfileCount{{Profile: "1g.10gb", Count: 4}}},
		"time slices":                 {podOf(box("x", "nvidia.com/gpu.shared=2")), 2, nil},
		"Volcano":                     {podOf(box("x", "volcano.sh/vgpu-number=2", "volcano.sh/vgpu-memory=3000")), 2, nil},
		"Volcano memory alone":        {podOf(box("x", "volcano.sh/vgpu-memory=3000")), 1, nil},
		"Koordinator percent":         {podOf(box("x", "koordinator.sh/gpu=200")), 2, nil},
		"Koordinator part":            {podOf(box("x", "koordinator.sh/gpu-core=50", "koordinator.sh/gpu-memory=8Gi")), 1, nil},
		"Koordinator one and a bit":   {podOf(box("x", "koordinator.sh/gpu-memory-ratio=101")), 2, nil},
		"limits and requests differ":  {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: list("nvidia.com/gpu=2"), Requests: list("nvidia.com/gpu=3")}}), 3, nil},
		"negative":                    {podOf(box("x", "nvidia.com/gpu=-3")), 1, nil},
		"half a card":                 {podOf(box("x", "nvidia.com/gpu=1500m")), 2, nil},
		"more than any node":          {podOf(box("x", "nvidia.com/gpu=9223372036854775807")), 64, nil},
		"two dialects that disagree":  {annotate(podOf(box("x", "nvidia.com/gpu=1"), box("y")), "gpu-fraction=0.5", "gpu-fraction-container-name=y"), 2, nil},
		"unreadable fraction":         {annotate(podOf(box("x")), "gpu-fraction=NaN"), 1, nil},
		"unreadable number of cards":  {annotate(podOf(box("x")), "gpu-fraction=0.5", "gpu-fraction-num-devices=many"), 1, nil},
		"unreadable policy":           {annotate(podOf(box("x", "nvidia.com/gpu=2")), "gputopology.io/numa-policy=bin-pack "), 2, nil},
		"misspelled resource":         {podOf(box("x", "gputopology.io/vrma=1Gi")), 1, nil},
		"unreadable MIG is a card":    {podOf(box("x", "nvidia.com/mig-1g.10gb=-1")), 1, []ledger.ProfileCount{{Profile: "1g.10gb", Count: 1}}},
		"an exponent beyond measure":  {podOf(v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: v1.ResourceList{"nvidia.com/gpu": *resource.NewScaledQuantity(1, 2_000_000_000)}}}), 1, nil},
		"many containers, many cards": {podOf(box("x", "nvidia.com/gpu=60"), box("y", "nvidia.com/gpu=60")), 64, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cards, mig := FromPodForeign(tt.pod)
			if got, want := TakesCards(tt.pod), tt.wantCards > 0 || len(tt.wantMIG) > 0; got != want {
				t.Errorf("takes cards: %v, want %v", got, want)
			}
			if cards != tt.wantCards {
				t.Errorf("%d cards, want %d", cards, tt.wantCards)
			}
			if diff := cmp.Diff(tt.wantMIG, mig); diff != "" {
				t.Errorf("MIG (-want +got):\n%s", diff)
			}
		})
	}
}
