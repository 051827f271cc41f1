package record

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestParseHolding holds that what was chosen is what the ledger gets back from the bound pod, and that it takes it.
func TestParseHolding(t *testing.T) {
	n := node(t)
	pods := map[string]*v1.Pod{}
	for name, p := range golden() {
		pods[name] = p.pod
	}
	pods["init larger than main"] = withInit(podOf(box("main", "nvidia.com/gpu", "2")), box("init", "nvidia.com/gpu", "5"))
	pods["shares of one card"] = podOf(box("x", "gputopology.io/vram", "30Gi"), box("y", "gputopology.io/vram", "1Mi"))
	pods["a share of all"] = podOf(box("x", "nvidia.com/gpumem-percentage", "100"))
	for name, pod := range pods {
		t.Run(name, func(t *testing.T) {
			choice := choose(t, n, pod)
			annotations, err := Annotations(pod, "n1", choice, Options{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := ParseHolding(bind(pod, "n1", annotations))
			if err != nil {
				t.Fatal(err)
			}
			want := ledger.Holding{UID: "u1", Pod: "ns/p", Node: "n1", Cards: choice.Cards}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			l := ledger.New()
			l.SetNode("n1", n)
			if err := l.Adopt(got); err != nil {
				t.Errorf("Adopt: %v", err)
			}
			if err := l.Check(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCaseB082Record holds that the record maps cards by container name, whatever containers without GPU stand around.
func TestCaseB082Record(t *testing.T) {
	n := node(t)
	for _, inits := range []int{0, 1, 3} {
		pod := podOf(box("x", "gputopology.io/vram", "16000Mi"), box("y", "gputopology.io/vram", "17000Mi"))
		for i := range inits {
			withInit(pod, box("init-"+strconv.Itoa(i)))
		}
		r := Build("n1", choose(t, n, pod), Options{})
		got := map[string]int64{}
		for _, c := range r.Containers {
			got[c.Name] = c.Cards[0].VRAMBytes
		}
		if diff := cmp.Diff(map[string]int64{"x": 16000 * mib, "y": 17000 * mib}, got); diff != "" {
			t.Errorf("%d init containers (-want +got):\n%s", inits, diff)
		}
	}
}

func TestParseHoldingRefuses(t *testing.T) {
	record := func(node string, cards ...allocate.CardShare) map[string]string {
		value, err := Build(node, allocate.Choice{Cards: cards}, Options{}).Format()
		if err != nil {
			t.Fatal(err)
		}
		return map[string]string{v1alpha1.AllocationAnnotation: value}
	}
	share := allocate.CardShare{Index: 1, SliceMask: 1, VRAMBytes: 2 * gib}
	instance := allocate.CardShare{Index: 2, SliceMask: 1, MIGProfile: "1g.10gb"}
	one, two := podOf(box("x", "nvidia.com/gpu", "1")), podOf(box("x", "nvidia.com/gpu", "2"))
	tests := map[string]struct {
		pod  *v1.Pod
		want func(error) bool
	}{
		"no record":                {bind(one, "n1", nil), func(err error) bool { return errors.Is(err, ErrNoRecord) }},
		"damaged":                  {bind(one, "n1", map[string]string{v1alpha1.AllocationAnnotation: `{"v":1,`}), isType[*v1alpha1.FieldError]},
		"empty":                    {bind(one, "n1", map[string]string{v1alpha1.AllocationAnnotation: ``}), isType[*v1alpha1.FieldError]},
		"newer":                    {bind(one, "n1", map[string]string{v1alpha1.AllocationAnnotation: `{"v":2}`}), isType[*v1alpha1.VersionError]},
		"of another node":          {bind(one, "n2", record("n1", whole(0))), mismatch("node", "n1", "n2")},
		"of a pod not bound":       {bind(one, "", record("n1", whole(0))), mismatch("node", "n1", "")},
		"on a pod without GPU":     {bind(podOf(box("x")), "n1", record("n1", whole(0))), mismatch("cards", "1", "no GPU")},
		"on a pod that asks badly": {bind(podOf(box("x", "nvidia.com/gpu", "-1")), "n1", record("n1", whole(0))), isType[*request.InvalidError]},
		"too few cards":            {bind(two, "n1", record("n1", whole(0))), mismatch("whole cards", "1", "2")},
		"a part for a whole card":  {bind(one, "n1", record("n1", share)), mismatch("whole cards", "0", "1")},
		"too little memory": {
			bind(podOf(box("x", "gputopology.io/vram", "3Gi")), "n1", record("n1", share)),
			mismatch("cards with 3221225472 bytes and 0 thousandths of compute", "0", "1"),
		},
		"too few instances": {bind(podOf(box("x", "nvidia.com/mig-1g.10gb", "2")), "n1", record("n1", instance)), mismatch("MIG instances 1g.10gb", "1", "2")},
		"another profile":   {bind(podOf(box("x", "nvidia.com/mig-2g.20gb", "1")), "n1", record("n1", instance)), mismatch("MIG instances 2g.20gb", "0", "1")},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseHolding(tt.pod)
			if !tt.want(err) || !cmp.Equal(got, ledger.Holding{}) {
				t.Errorf("ParseHolding = %+v, error %v (%T)", got, err, err)
			}
		})
	}
}

// isType reports whether an error is, or wraps, one of type E.
func isType[E error](err error) bool {
	var target E
	return errors.As(err, &target)
}

func mismatch(field, record, pod string) func(error) bool {
	return func(err error) bool {
		var got *MismatchError
		return errors.As(err, &got) && *got == MismatchError{Field: field, Record: record, Pod: pod}
	}
}

func TestForeignHolding(t *testing.T) {
	instances := []ledger.ProfileCount{{Profile: "1g.10gb", Count: 2}}
	got := ForeignHolding(bind(podOf(), "n1", nil), 3, instances)
	want := ledger.Holding{UID: "u1", Pod: "ns/p", Node: "n1", UnknownCards: 3, UnknownMIG: []ledger.ProfileCount{{Profile: "1g.10gb", Count: 2}}}
	instances[0].Count = 7
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// FuzzParseHolding holds that the ledger takes whatever ParseHolding accepts, and that nothing it accepts is less than the
// pod asks for.
func FuzzParseHolding(f *testing.F) {
	for _, cards := range [][]allocate.CardShare{{whole(0)}, {whole(0), whole(1)}, {{Index: 1, SliceMask: 1, VRAMBytes: gib}}} {
		value, err := Build("n1", allocate.Choice{Cards: cards}, Options{}).Format()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(value, "nvidia.com/gpu", uint8(2))
		f.Add(strings.Replace(value, `"index":0`, `"index":63`, 1), "gputopology.io/vram", uint8(1))
	}
	f.Fuzz(func(t *testing.T, value, resource string, n uint8) {
		pod := podOf(box("x", resource, strconv.Itoa(int(n))))
		h, err := ParseHolding(bind(pod, "n1", map[string]string{v1alpha1.AllocationAnnotation: value}))
		if err != nil {
			return
		}
		if err := ledger.New().Adopt(h); err != nil {
			t.Fatalf("the ledger refuses %+v: %v", h, err)
		}
		if resource == "nvidia.com/gpu" && len(h.Cards) < int(n) {
			t.Fatalf("%d shares for %d cards", len(h.Cards), n)
		}
	})
}
