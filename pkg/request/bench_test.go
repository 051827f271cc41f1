package request

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

func cpuPod() *v1.Pod {
	pod := withInit(podOf(box("app", "cpu=1", "memory=1Gi", "ephemeral-storage=1Gi"), box("log", "cpu=1", "memory=1Gi")), box("init", "cpu=1"))
	return annotate(pod, "kubernetes.io/config.source=api", "prometheus.io/scrape=true", "sidecar.istio.io/inject=true")
}

// TestNoGPUNoAllocation holds that pods without GPUs cost no memory.
func TestNoGPUNoAllocation(t *testing.T) {
	pod := cpuPod()
	if n := testing.AllocsPerRun(100, func() {
		if r, err := FromPod(pod); r != nil || err != nil {
			t.Fatal(r, err)
		}
	}); n != 0 {
		t.Errorf("FromPod: %v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		if cards, mig := FromPodForeign(pod); cards != 0 || mig != nil {
			t.Fatal(cards, mig)
		}
	}); n != 0 {
		t.Errorf("FromPodForeign: %v allocations", n)
	}
}

func BenchmarkFromPod(b *testing.B) {
	pods := map[string]*v1.Pod{
		"no GPU":  cpuPod(),
		"8 cards": podOf(box("x", "cpu=1", "memory=1Gi", "nvidia.com/gpu=8")),
		"share":   annotate(podOf(box("x", "cpu=1", "memory=1Gi", "gputopology.io/vram=20Gi")), "gputopology.io/vram-cards=2"),
		"HAMi":    podOf(box("x", "cpu=1", "memory=1Gi", "nvidia.com/gpu=1", "nvidia.com/gpumem=3000", "nvidia.com/gpucores=30")),
		"KAI":     annotate(podOf(box("x", "cpu=1", "memory=1Gi")), "gpu-fraction=0.5"),
	}
	for name, pod := range pods {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := FromPod(pod); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
