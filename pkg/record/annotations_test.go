package record

import (
	"errors"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

var update = flag.Bool("update", false, "write the golden files anew")

// placed is a pod with the cards that it was given.
type placed struct {
	pod    *v1.Pod
	choice allocate.Choice
}

// golden are the pods of the golden files; each is written in every dialect that has room for it.
func golden() map[string]placed {
	part := func(i int, mask uint64, mebibytes int64, milli int32) allocate.CardShare {
		return allocate.CardShare{Index: i, UUID: whole(i).UUID, SliceMask: mask, VRAMBytes: mebibytes * mib, ComputeMilli: milli}
	}
	instance := func(i int, mask uint64, profile string, size int64) allocate.CardShare {
		return allocate.CardShare{Index: i, UUID: whole(i).UUID, SliceMask: mask, VRAMBytes: size * gib, MIGProfile: profile}
	}
	third := part(0, 0x1fffff, 0, 0)
	third.VRAMBytes = 28633115279
	fraction := podOf(box("main"))
	fraction.Annotations = map[string]string{"gpu-fraction": "0.333333333"}
	return map[string]placed{
		"whole": {podOf(box("main", "nvidia.com/gpu", "2")), given("main", whole(0), whole(1))},
		"share": {podOf(box("log"), box("main", "nvidia.com/gpumem", "3000", "nvidia.com/gpucores", "33")), given("main", part(0, 0x3, 3000, 330))},
		"third": {fraction, given("main", third)},
		"containers": {
			withInit(podOf(box("log"), box("main", "nvidia.com/gpu", "1"), box("side", "gputopology.io/vram", "10Gi")), box("wait"), box("load", "nvidia.com/gpu", "1")),
			allocate.Choice{Cards: []allocate.CardShare{whole(0), part(1, 0xff, 10240, 0)}, Containers: []allocate.ContainerShare{
				{Name: "load", Cards: []allocate.CardShare{whole(0)}},
				{Name: "main", Cards: []allocate.CardShare{whole(0)}},
				{Name: "side", Cards: []allocate.CardShare{part(1, 0xff, 10240, 0)}},
			}},
		},
		"mig": {
			podOf(box("main", "nvidia.com/mig-1g.10gb", "2", "nvidia.com/mig-3g.40gb", "1")),
			given("main", instance(6, 0x1, "1g.10gb", 10), instance(6, 0x2, "1g.10gb", 10), instance(6, 0xf0, "3g.40gb", 40)),
		},
	}
}

// given is a choice for the only container that claims.
func given(container string, cards ...allocate.CardShare) allocate.Choice {
	return allocate.Choice{Cards: cards, Containers: []allocate.ContainerShare{{Name: container, Cards: cards}}}
}

// TestGolden holds the exact keys and values of every dialect. Run it with -update to write the files anew.
func TestGolden(t *testing.T) {
	n := node(t)
	for name, p := range golden() {
		for _, dialect := range v1alpha1.Dialects() {
			t.Run(name+"/"+dialect, func(t *testing.T) {
				got := lines(Annotations(p.pod, "n1", p.choice, Options{Dialects: []string{dialect}, Now: now, Topology: n}))
				file := filepath.Join("testdata", dialect, name+".golden")
				if *update {
					if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			})
		}
	}
}

// lines prints annotations by ascending key, or the error.
func lines(annotations map[string]string, err error) string {
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(annotations)) {
		b.WriteString(k + ": " + annotations[k] + "\n")
	}
	return b.String()
}

func TestAnnotationsWithoutDialects(t *testing.T) {
	rank := int32(3)
	got, err := Annotations(podOf(box("main", "nvidia.com/gpu", "1")), "n1", given("main", whole(0)), Options{Gang: "ns/llama", Rank: &rank, Plan: "p7"})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		v1alpha1.AllocationAnnotation: `{"v":1,"node":"n1","cards":[{"index":0,"uuid":"GPU-0","sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}],"gang":"ns/llama","rank":3,"plan":"p7"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnnotationsRefuse(t *testing.T) {
	pod := podOf(box("main", "nvidia.com/gpu", "1"))
	choiceOf := func(container string, change func(*allocate.CardShare)) allocate.Choice {
		s := whole(0)
		if change != nil {
			change(&s)
		}
		return given(container, s)
	}
	tests := map[string]struct {
		choice   allocate.Choice
		dialects []string
		want     string
	}{
		"unknown dialect":     {choiceOf("main", nil), []string{"HAMi"}, `record dialect "HAMi": unknown; known are hami, koordinator, volcano`},
		"container not there": {choiceOf("other", nil), []string{"hami"}, `record dialect "hami": the pod has no container "other"`},
		"no UUID":             {choiceOf("main", func(s *allocate.CardShare) { s.UUID = "" }), []string{"volcano"}, `record dialect "volcano": card 0 of node n1 has no known UUID`},
		"a UUID that splits":  {choiceOf("main", func(s *allocate.CardShare) { s.UUID = "GPU-0,NVIDIA" }), []string{"hami"}, `record dialect "hami": the UUID "GPU-0,NVIDIA" of card 0 of node n1 holds a separator`},
		"unknown memory":      {choiceOf("main", func(s *allocate.CardShare) { s.VRAMBytes = 0 }), []string{"hami"}, `record dialect "hami": the memory of card 0 of node n1 is not known`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Annotations(pod, "n1", tt.choice, Options{Dialects: tt.dialects, Now: now})
			var dialect *DialectError
			if !errors.As(err, &dialect) || err.Error() != tt.want {
				t.Errorf("Annotations = %v, error %v (%T)\nwant %s", got, err, err, tt.want)
			}
		})
	}
	var field *v1alpha1.FieldError
	if _, err := Annotations(pod, "n1", allocate.Choice{}, Options{}); !errors.As(err, &field) {
		t.Errorf("a choice of nothing: %v, want a *v1alpha1.FieldError", err)
	}
}

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		pod  *v1.Pod
		want map[string]string
	}{
		"app containers": {podOf(box("main", "nvidia.com/gpu", "1")), nil},
		"init container": {withInit(podOf(box("main")), box("init", "nvidia.com/gpu", "1")), map[string]string{
			"volcano": `record dialect "volcano": its agent serves app containers only, and init container "init" asks for a GPU`,
		}},
		"MIG": {podOf(box("main", "nvidia.com/mig-1g.10gb", "1")), map[string]string{
			"volcano":     `record dialect "volcano": it cannot name the MIG instances that container "main" asks for`,
			"koordinator": `record dialect "koordinator": it cannot name the MIG instances that container "main" asks for`,
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			asked, err := request.FromPod(tt.pod)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, dialect := range v1alpha1.Dialects() {
				if err := Check(asked, []string{dialect}); err != nil {
					got[dialect] = err.Error()
				}
			}
			if tt.want == nil {
				tt.want = map[string]string{}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if err := Check(&allocate.Request{}, []string{"slurm"}); err == nil {
		t.Error("an unknown dialect is accepted")
	}
	if err := Check(&allocate.Request{}, v1alpha1.Dialects()); err != nil || len(dialects) != len(v1alpha1.Dialects()) {
		t.Errorf("the configuration knows %v, this package %d dialects: %v", v1alpha1.Dialects(), len(dialects), err)
	}
}

// TestAgentsDecode reads the values back in the way that the agents do: HAMi's finds a container by its place among init and
// app containers, Volcano's by its place among app containers.
func TestAgentsDecode(t *testing.T) {
	n := node(t)
	pod, choice := golden()["containers"].pod, golden()["containers"].choice
	annotations, err := Annotations(pod, "n1", choice, Options{Dialects: []string{v1alpha1.DialectHAMi}, Now: now, Topology: n})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"wait", "load", "log", "main", "side"}
	slots := strings.Split(strings.TrimSuffix(annotations[hamiToAllocate], ";"), ";")
	if len(slots) != len(names) {
		t.Fatalf("%d slots in %q, want %d", len(slots), annotations[hamiToAllocate], len(names))
	}
	for i, name := range names {
		if got, want := uuids(slots[i]), chosen(choice, name); !slices.Equal(got, want) {
			t.Errorf("container %s gets %v, want %v", name, got, want)
		}
	}
	pod = podOf(box("log"), box("main", "nvidia.com/gpu", "2"), box("idle"), box("side", "nvidia.com/gpu", "1"))
	choice = choose(t, n, pod)
	annotations, err = Annotations(pod, "n1", choice, Options{Dialects: []string{v1alpha1.DialectVolcano}, Now: now, Topology: n})
	if err != nil {
		t.Fatal(err)
	}
	for i, slot := range strings.Split(annotations[volcanoToAllocate], ";") {
		if got, want := uuids(slot), chosen(choice, pod.Spec.Containers[i].Name); !slices.Equal(got, want) {
			t.Errorf("container %s gets %v, want %v", pod.Spec.Containers[i].Name, got, want)
		}
	}
}

func uuids(slot string) []string {
	var out []string
	for _, device := range strings.Split(slot, ":") {
		if uuid, _, ok := strings.Cut(device, ","); ok {
			out = append(out, uuid)
		}
	}
	return out
}

func chosen(choice allocate.Choice, container string) []string {
	var out []string
	for _, c := range choice.Containers {
		if c.Name == container {
			for _, s := range c.Cards {
				out = append(out, s.UUID)
			}
		}
	}
	return out
}

// TestAgentMemoryFitsCard holds that what agents are told of shares which fill a card adds up to no more than the card.
func TestAgentMemoryFitsCard(t *testing.T) {
	w := &writing{dialect: &dialects[0], node: "n1"}
	for _, parts := range []int64{1, 2, 3, 7, 1000} {
		card := 81559 * mib
		share := allocate.CardShare{UUID: "GPU-0", VRAMBytes: card / parts, ComputeMilli: 1000 / int32(parts)}
		device, err := w.device(&share)
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Split(strings.TrimSuffix(device, ":"), ",")
		if got, most := number(t, fields[2])*parts, int64(81559); got > most {
			t.Errorf("%d parts get %d MiB of %d", parts, got, most)
		}
		if got := number(t, fields[3]) * parts; got > 100 && parts <= 100 {
			t.Errorf("%d parts get %d %% of the compute", parts, got)
		}
	}
	tiny := allocate.CardShare{UUID: "GPU-0", VRAMBytes: 1, ComputeMilli: 1}
	if got, err := w.device(&tiny); err != nil || got != "GPU-0,NVIDIA,1,1:" {
		t.Errorf("a tiny share is %q, %v: 0 would be no limit", got, err)
	}
}
