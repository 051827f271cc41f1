package record

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// TestRecentIsWhatIsRead holds for random pods that what a Recent says of a bound pod is what reading its record says: as it was
// written, on another node, for another request, and with any byte of it changed.
func TestRecentIsWhatIsRead(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	n, chooser, recent := node(t), allocate.NewChooser(), NewRecent()
	use := make([]allocate.CardUse, n.Len())
	view := &allocate.View{Topology: n, Use: use, Free: allocate.FreeCards(n, use, 0)}
	written := 0
	for range 2000 {
		pod := randomPod(r)
		asked, err := request.FromPod(pod)
		if err != nil || asked == nil {
			continue
		}
		choice, rejection, err := chooser.Choose(view, asked)
		if err != nil || rejection != nil {
			continue
		}
		annotations, err := Annotations(pod, "n1", choice, Options{Recent: recent, Plan: fmt.Sprint("plan-", r.IntN(5))})
		if err != nil {
			t.Fatal(err)
		}
		written++
		text := annotations[v1alpha1.AllocationAnnotation]
		if recent.records[text] == nil {
			t.Fatalf("%s is not kept", text)
		}
		edited := []byte(text)
		edited[r.IntN(len(edited))] = byte(' ' + r.IntN(95))
		for _, other := range []*v1.Pod{
			bind(pod, "n1", annotations), bind(pod, "n2", annotations), bind(randomPod(r), "n1", annotations), bind(pod, "n1", nil),
			bind(pod, "n1", map[string]string{v1alpha1.AllocationAnnotation: string(edited)}),
		} {
			checkRead(t, recent, other)
		}
	}
	if written < 500 {
		t.Errorf("only %d records were written: the generator is too narrow", written)
	}
}

func checkRead(t *testing.T, recent *Recent, pod *v1.Pod) {
	t.Helper()
	h, held, fault := Charge(pod, recent)
	want, wantHeld, wantFault := Charge(pod, nil)
	if held != wantHeld || fmt.Sprint(fault) != fmt.Sprint(wantFault) {
		t.Errorf("%v, %v; who reads the record says %v, %v", held, fault, wantHeld, wantFault)
	}
	if diff := cmp.Diff(want, h, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-read +kept):\n%s", diff)
	}
}

// TestRecentIsBounded: what was written last is kept, whatever was written before, and by how many at a time.
func TestRecentIsBounded(t *testing.T) {
	recent := NewRecent()
	pod := podOf(box("main", "nvidia.com/gpu", "1"))
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range recents {
				o := Options{Recent: recent, Plan: fmt.Sprintf("%d-%d", w, i/2)} // each is written twice
				annotations, err := Annotations(pod, "n1", given("main", whole(0)), o)
				if err != nil {
					t.Error(err)
					return
				}
				if _, held, fault := Charge(bind(pod, "n1", annotations), recent); !held || fault != nil {
					t.Errorf("held %v, fault %v", held, fault)
				}
			}
		})
	}
	writers.Wait()
	if len(recent.records) != recents {
		t.Errorf("%d records are kept, not %d", len(recent.records), recents)
	}
	last, err := Annotations(pod, "n1", given("main", whole(0)), Options{Recent: recent, Plan: "last"})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Clone(last[v1alpha1.AllocationAnnotation])
	if recent.records[text] == nil || len(recent.records) != recents {
		t.Errorf("the last record is not kept, or %d are", len(recent.records))
	}
}
