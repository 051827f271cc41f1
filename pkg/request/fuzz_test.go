package request

import (
	"errors"
	"math"
	"math/big"
	"regexp"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gputopology/gpu-topology-scheduler/pkg/allocate"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// FuzzQuantity holds units against an independent reading of the quantity's own decimal.
func FuzzQuantity(f *testing.F) {
	for _, s := range []string{"0", "1", "16Gi", "4Ti", "9223372036854775807", "1e19", "24576M", "1500m", "0.5", "-1", "1n", "1e-9", "1e30", "-0.000000001"} {
		f.Add(s, int64(1), int32(0))
	}
	f.Add("", int64(math.MinInt64), int32(math.MinInt32))
	f.Add("", int64(math.MaxInt64), int32(math.MaxInt32))
	f.Fuzz(func(t *testing.T, s string, value int64, scale int32) {
		q := resource.NewScaledQuantity(value, resource.Scale(scale))
		if s != "" {
			parsed, ok := parseQuantity(s)
			if !ok {
				return
			}
			q = &parsed
		}
		got, exact, reason := units(*q)
		if text := quantityText(*q); len(text) > 128 {
			t.Fatalf("the text of the quantity has %d bytes", len(text))
		}
		d := q.DeepCopy()
		dec := d.AsDec()
		if reason == "is out of range" {
			if s := int64(dec.Scale()); s >= -maxScale && s <= maxScale && dec.UnscaledBig().BitLen() <= maxBits {
				t.Fatalf("refused as out of range, but it is %s", dec)
			}
			return
		}
		if dec.Sign() == 0 {
			if got != 0 || !exact || reason != "" {
				t.Fatalf("zero is read as %d, %t, %q", got, exact, reason)
			}
			return
		}
		if dec.Sign() < 0 {
			if reason == "" {
				t.Fatalf("%s is read as %d", dec, got)
			}
			return
		}
		want, ok := new(big.Rat).SetString(dec.String())
		if !ok {
			t.Fatalf("%s is no number", dec)
		}
		low, high := big.NewRat(got-1, 1), big.NewRat(got, 1)
		switch {
		case reason != "":
			if want.Cmp(big.NewRat(math.MaxInt64, 1)) <= 0 {
				t.Fatalf("%s is refused: %s", dec, reason)
			}
		case got < 1 || low.Cmp(want) >= 0 || high.Cmp(want) < 0 || exact != (high.Cmp(want) == 0):
			t.Fatalf("%s is read as %d, exact %t", dec, got, exact)
		}
	})
}

var plainDecimal = regexp.MustCompile(`^(\d+\.?\d*|\.\d+)$`)

// FuzzKAIFraction holds that exactly the plain decimals from 0 to 1 are read, never as 0 unless they are, never above what
// they say unless below one part in a billion, and never more than that below it.
func FuzzKAIFraction(f *testing.F) {
	for _, s := range []string{"", "0", "0.5", "1", "1.0", "1.0000000001", ".5", "1.", ".", "0.333333333", "0.3333333333333", "1e-1", "NaN", "Inf", "-0.5", "0x1p-2", "1_0", " 1", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, reason := parseFraction(s)
		exact, isNumber := new(big.Rat).SetString(s)
		readable := len(s) <= maxDecimal && plainDecimal.MatchString(s) && isNumber && exact.Cmp(big.NewRat(1, 1)) <= 0
		if readable != (reason == "") {
			t.Fatalf("%q is read as %d, %q", s, got, reason)
		}
		if reason != "" {
			return
		}
		read := big.NewRat(got, ppb)
		switch {
		case exact.Sign() == 0:
			if got != 0 {
				t.Fatalf("%q is read as %d", s, got)
			}
		case exact.Cmp(big.NewRat(1, ppb)) < 0:
			if got != 1 {
				t.Fatalf("%q is read as %d", s, got)
			}
		case read.Cmp(exact) > 0 || new(big.Rat).Sub(exact, read).Cmp(big.NewRat(1, ppb)) >= 0 || got > ppb:
			t.Fatalf("%q is read as %d", s, got)
		}
	})
}

// FuzzFromPod builds pods of strings and holds what the documentation of FromPod and FromPodForeign promises.
func FuzzFromPod(f *testing.F) {
	f.Add("nvidia.com/gpu", "2", "nvidia.com/gpumem", "3000", "gpu-fraction", "0.5", uint8(0))
	f.Add("gputopology.io/vram", "20Gi", "gputopology.io/vrma", "1", "gputopology.io/vram-cards", "4", uint8(1))
	f.Add("nvidia.com/mig-1g.10gb", "1", "nvidia.com/gpucores", "50", "gputopology.io/numa-policy", "bin-pack ", uint8(2))
	f.Add("nvidia.com/gpumem-percentage", "30", "nvidia.com/gpu", "1e30", "gpu-memory", "NaN", uint8(7))
	f.Add("koordinator.sh/gpu", "150", "nvidia.com/gpu", "1", "gpu-fraction-container-name", "y", uint8(255))
	f.Fuzz(func(t *testing.T, nameA, valueA, nameB, valueB, key, value string, shape uint8) {
		a, b := v1.ResourceList{}, v1.ResourceList{}
		put(a, nameA, valueA)
		put(b, nameB, valueB)
		first := v1.Container{Name: "x", Resources: v1.ResourceRequirements{Limits: a}}
		second := v1.Container{Name: "y", Resources: v1.ResourceRequirements{Requests: b}}
		if shape&1 != 0 {
			first.Resources.Requests, second = b, v1.Container{Name: "y"}
		}
		pod := annotate(podOf(second), key+"="+value)
		if shape&2 != 0 {
			first = sidecar(first)
		}
		if shape&4 != 0 {
			withInit(pod, first)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, first)
		}
		before := pod.DeepCopy()
		got, err := FromPod(pod)
		again, errAgain := FromPod(pod)
		if diff := cmp.Diff(got, again); diff != "" || (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() {
			t.Fatalf("two readings differ: %v, %v\n%s", err, errAgain, diff)
		}
		checkRequest(t, got, err)
		cards, mig := FromPodForeign(pod)
		checkForeign(t, got, err, cards)
		for i, m := range mig {
			if m.Count < 1 || m.Count > maxInstances || m.Profile == "" || i > 0 && mig[i-1].Profile >= m.Profile {
				t.Fatalf("MIG charge %+v", mig)
			}
		}
		if diff := cmp.Diff(before, pod); diff != "" {
			t.Fatalf("the pod was changed (-before +after):\n%s", diff)
		}
	})
}

func put(list v1.ResourceList, name, value string) {
	if q, ok := parseQuantity(value); ok {
		list[v1.ResourceName(name)] = q
	}
}

var largeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4,}`)

// parseQuantity is resource.ParseQuantity less the exponents on which that itself does not end; FuzzQuantity makes
// quantities with such exponents by hand.
func parseQuantity(s string) (resource.Quantity, bool) {
	if largeExponent.MatchString(s) {
		return resource.Quantity{}, false
	}
	q, err := resource.ParseQuantity(s)
	return q, err == nil
}

func checkRequest(t *testing.T, r *allocate.Request, err error) {
	t.Helper()
	if err != nil {
		var invalid *InvalidError
		if !errors.As(err, &invalid) || r != nil || invalid.Field == "" || invalid.Reason == "" || utf8.RuneCountInString(invalid.Value) > 64 || len(err.Error()) > 2048 {
			t.Fatalf("request %+v with error %#v", r, err)
		}
		return
	}
	if r == nil {
		return
	}
	if len(r.Claims) == 0 {
		t.Fatal("a request without claims")
	}
	if err := r.Validate(); err != nil {
		t.Fatalf("package allocate refuses the request: %v", err)
	}
	for _, c := range r.Claims {
		most := maxCards
		if c.Kind == allocate.KindMIG {
			most = maxInstances
		}
		shareOK := c.VRAMBytes == 0 && c.FractionPPB == 0
		if c.Kind == allocate.KindShare {
			shareOK = (c.VRAMBytes > 0) != (c.FractionPPB > 0) && c.VRAMBytes >= 0 && c.VRAMBytes%mib == 0 &&
				c.VRAMBytes <= topology.MaxVRAMBytes && c.FractionPPB >= 0 && c.FractionPPB <= ppb
		}
		if c.Count < 1 || c.Count > most || !shareOK || c.ComputeMilli < 0 || c.ComputeMilli > allocate.MilliPerCard ||
			(c.Profile != "") != (c.Kind == allocate.KindMIG) || !slices.Contains([]string{"x", "y"}, c.Container) {
			t.Fatalf("claim %+v", c)
		}
	}
}

// checkForeign holds that a foreign pod is never charged less than the cards that its claims touch at any one moment.
func checkForeign(t *testing.T, r *allocate.Request, err error, cards int) {
	t.Helper()
	if cards < 0 || cards > maxCards || err != nil && cards == 0 {
		t.Fatalf("%d cards are charged, error %v", cards, err)
	}
	if r == nil {
		return
	}
	mains, inits := 0, 0
	for _, c := range r.Claims {
		switch {
		case c.Kind == allocate.KindMIG:
		case c.Phase == allocate.PhaseInit:
			inits = max(inits, c.Count)
		default:
			mains += c.Count
		}
	}
	if want := min(max(mains, inits), maxCards); cards < want {
		t.Fatalf("%d cards are charged, the claims touch %d: %+v", cards, want, r.Claims)
	}
}
