package record

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// TestChosenIsHeld holds for random pods of any mix of containers and wishes that what the chooser gives is written, read
// back unchanged from the bound pod, and not taken for less than the pod asks; and that one share less is.
func TestChosenIsHeld(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n, chooser := node(t), allocate.NewChooser()
	use := make([]allocate.CardUse, n.Len())
	view := &allocate.View{Topology: n, Use: use, Free: allocate.FreeCards(n, use, 0)}
	placed, refused := 0, 0
	for range 3000 {
		pod := randomPod(r)
		asked, err := request.FromPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if asked == nil {
			continue
		}
		choice, rejection, err := chooser.Choose(view, asked)
		if err != nil {
			t.Fatal(err)
		}
		if rejection != nil {
			continue
		}
		placed++
		annotations, err := Annotations(pod, "n1", choice, Options{})
		if err != nil {
			t.Fatalf("%+v: %v", asked, err)
		}
		got, err := ParseHolding(bind(pod, "n1", annotations))
		if err != nil {
			t.Fatalf("%+v is given %+v: %v", asked, choice.Cards, err)
		}
		if diff := cmp.Diff(choice.Cards, got.Cards); diff != "" {
			t.Fatalf("(-chosen +read):\n%s", diff)
		}
		wholeOnly := len(choice.Cards) == request.WholeCards(asked)
		if wholeOnly && len(choice.Cards) > 1 {
			less := Build("n1", allocate.Choice{Cards: choice.Cards[1:]}, Options{})
			if _, err := Holding(less, bind(pod, "n1", nil)); err == nil {
				t.Fatalf("%+v: a record of %d cards passes for %d", asked, len(less.Cards), len(choice.Cards))
			}
			refused++
		}
	}
	if placed < 500 || refused < 100 {
		t.Errorf("only %d pods were placed and %d records shortened: the generator is too narrow", placed, refused)
	}
}

func randomPod(r *rand.Rand) *v1.Pod {
	pod := podOf()
	for i := range r.IntN(3) {
		c := randomBox(r, fmt.Sprintf("init-%d", i))
		if r.IntN(2) == 0 {
			always := v1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		withInit(pod, c)
	}
	for i := range 1 + r.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, randomBox(r, fmt.Sprintf("app-%d", i)))
	}
	if r.IntN(3) == 0 && hasVRAM(pod) {
		pod.Annotations = map[string]string{v1alpha1.VRAMCardsAnnotation: fmt.Sprint(1 + r.IntN(3)), v1alpha1.ComputeMilliAnnotation: fmt.Sprint(r.IntN(500))}
	}
	return pod
}

func randomBox(r *rand.Rand, name string) v1.Container {
	switch r.IntN(6) {
	case 0, 1:
		return box(name, "nvidia.com/gpu", fmt.Sprint(1+r.IntN(3)))
	case 2:
		return box(name, v1alpha1.VRAMResource, fmt.Sprintf("%dMi", 1+r.IntN(40000)))
	case 3:
		return box(name, "nvidia.com/gpumem-percentage", fmt.Sprint(1+r.IntN(60)), "nvidia.com/gpucores", fmt.Sprint(r.IntN(50)))
	case 4:
		return box(name, "nvidia.com/mig-1g.10gb", fmt.Sprint(1+r.IntN(2)), "nvidia.com/mig-3g.40gb", fmt.Sprint(r.IntN(2)))
	}
	return box(name)
}

func hasVRAM(pod *v1.Pod) bool {
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if _, ok := c.Resources.Limits[v1alpha1.VRAMResource]; ok {
				return true
			}
		}
	}
	return false
}
