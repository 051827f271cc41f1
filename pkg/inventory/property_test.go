package inventory

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/topology"
)

// world is a random node and what is known to be true of it, without asking the code under test.
type world struct {
	node   *v1.Node
	slices sliceList
	// sick are the UUIDs that a well-formed source calls unhealthy.
	sick map[string]bool
	// best is the first well-formed source, empty if it has none.
	best string
}

// spoil damages a text now and then; it reports whether it did.
func spoil(t *rapid.T, s string) (string, bool) {
	if !rapid.Bool().Draw(t, "spoil") || s == "" {
		return s, false
	}
	at := rapid.IntRange(0, len(s)-1).Draw(t, "at")
	switch rapid.IntRange(0, 2).Draw(t, "how") {
	case 0:
		return s[:at], true
	case 1:
		return s[:at] + rapid.StringN(0, 4, 8).Draw(t, "junk") + s[at:], true
	}
	return s[:at] + string(rapid.Byte().Draw(t, "byte")) + s[at+1:], true
}

// genWorld draws a node whose sources each describe up to eight cards with UUIDs from one small set.
func genWorld(t *rapid.T) world {
	w := world{sick: map[string]bool{}}
	annotations, labels, status := strs{}, strs{}, strs{}
	note := func(source string, damaged bool, sick []string) {
		if damaged {
			return
		}
		if w.best == "" {
			w.best = source
		}
		if source == w.best || source == SourceDRA || source == SourceHAMi || source == SourceVolcano {
			for _, s := range sick {
				w.sick[s] = true
			}
		}
	}
	if rapid.Bool().Draw(t, "annotation") {
		value, sick := genAnnotation(t)
		value, damaged := spoil(t, value)
		annotations[v1alpha1.TopologyAnnotation] = value
		note(SourceAnnotation, damaged, sick)
	}
	if rapid.Bool().Draw(t, "dra") {
		var sick []string
		w.slices, sick = genDRA(t)
		note(SourceDRA, false, sick)
	}
	if rapid.Bool().Draw(t, "hami") {
		value, sick := genHAMi(t)
		value, damaged := spoil(t, value)
		annotations[annotationHAMiRegister] = value
		annotations[annotationHAMiScore], _ = spoil(t, scores(rapid.IntRange(0, 4).Draw(t, "scored"), func(i, j int) int { return 10 * (i + j) }))
		note(SourceHAMi, damaged, sick)
	}
	if rapid.Bool().Draw(t, "cordon") {
		u := uuid(rapid.IntRange(0, 9).Draw(t, "cordoned"))
		annotations[annotationCordon] = u
		w.sick[u] = true
	}
	if rapid.Bool().Draw(t, "gfd") {
		labels = gfdLabels(rapid.SampledFrom([]string{h100Label, "Foo-1", "Tesla-T4-SHARED"}).Draw(t, "product"), rapid.IntRange(-1, 9).Draw(t, "count"))
		labels["nvidia.com/mig-1g.10gb.count"] = fmt.Sprint(rapid.IntRange(-1, 20).Draw(t, "instances"))
	}
	if rapid.Bool().Draw(t, "status") {
		status["nvidia.com/gpu"] = fmt.Sprint(rapid.IntRange(-1, 9).Draw(t, "allocatable"))
		status["nvidia.com/gpu^"] = fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "capacity"))
	}
	w.node = newNode(annotations, labels, status)
	return w
}

func genAnnotation(t *rapid.T) (value string, sick []string) {
	var cards []string
	for i := range rapid.IntRange(1, 8).Draw(t, "cards") {
		healthy := rapid.Bool().Draw(t, "healthy")
		if !healthy {
			sick = append(sick, uuid(i))
		}
		cards = append(cards, fmt.Sprintf(`{"uuid":%q,"vramBytes":%d,"healthy":%v}`, uuid(i), rapid.SampledFrom([]int64{-1, 0, 80 * gib}).Draw(t, "vram"), healthy))
	}
	return `{"v":1,"cards":[` + strings.Join(cards, ",") + `],"observedAt":"2026-03-01T12:00:00Z"}`, sick
}

func genHAMi(t *rapid.T) (value string, sick []string) {
	var text []string
	n := rapid.IntRange(1, 8).Draw(t, "cards")
	health := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "health")
	for i, healthy := range health {
		if !healthy {
			sick = append(sick, uuid(i))
		}
		text = append(text, fmt.Sprintf("GPU-%d,10,8192,100,NVIDIA-Tesla T4,%d,%v,%d,hami-core", i, i/4, healthy, i))
	}
	if rapid.Bool().Draw(t, "text form") {
		return strings.Join(text, ":") + ":", sick
	}
	return hamiJSON(n, func(i int, e string) string {
		return strings.Replace(e, `"health":true`, fmt.Sprintf(`"health":%v`, health[i]), 1)
	}), sick
}

func genDRA(t *rapid.T) (list sliceList, sick []string) {
	var devices []resourcev1.Device
	for i := range rapid.IntRange(1, 8).Draw(t, "devices") {
		d := draGPU(i)
		if effect := rapid.SampledFrom([]resourcev1.DeviceTaintEffect{"", "None", "NoSchedule", "NoExecute"}).Draw(t, "taint"); effect != "" {
			taint(effect)(&d)
			if effect != "None" {
				sick = append(sick, uuid(i))
			}
		}
		devices = append(devices, d)
	}
	return sliceList{draSlice("a", 1, rapid.Int64Range(1, 2).Draw(t, "slices"), devices...)}, sick
}

func TestResolveProperties(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 10, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		w := genWorld(t)
		o := Options{Now: now, MaxAge: rapid.SampledFrom([]time.Duration{0, time.Minute, time.Hour}).Draw(t, "max age")}
		node, list := w.node.DeepCopy(), make(sliceList, len(w.slices))
		for i := range w.slices {
			list[i] = w.slices[i].DeepCopy()
		}
		res := Resolve(node, list, o)
		if diff := cmp.Diff(w.node, node) + cmp.Diff(w.slices, list); diff != "" && len(list) > 0 {
			t.Fatalf("the arguments were changed:\n%s", diff)
		}
		slices.Reverse(list)
		if again := Resolve(node, list, o); !reflect.DeepEqual(res, again) {
			t.Fatalf("a second call differs:\n%s\n%s", dump(res), dump(again))
		}
		checkResult(t, res)
		if res.Topology == nil {
			if w.best != "" {
				t.Fatalf("%s is well-formed, and there are no cards: %v", w.best, res.Problems)
			}
			return
		}
		for i := range res.Topology.Usable().All() {
			if c := res.Topology.Card(i); w.sick[c.UUID] {
				t.Fatalf("card %d (%s) is usable, and a source calls it unhealthy:\n%s", i, c.UUID, dump(res))
			}
		}
		if q, ok := node.Status.Allocatable[resourceGPU]; ok && q.Sign() == 0 && len(list) == 0 && !(res.Topology.Usable() &^ res.Topology.MIGCards()).Empty() {
			t.Fatalf("the kubelet offers nothing, and cards are usable:\n%s", dump(res))
		}
	})
}

// checkResult checks what is true of every result.
func checkResult(t interface{ Fatalf(string, ...any) }, res Result) {
	if (res.Topology == nil) != (res.Source == "") {
		t.Fatalf("source %q, cards %v", res.Source, res.Topology != nil)
	}
	if res.Allocatable < -1 || res.Allocatable > topology.MaxCards {
		t.Fatalf("allocatable is %d", res.Allocatable)
	}
	for _, p := range res.Problems {
		if utf8.RuneCountInString(p.Value) > maxValue || !utf8.ValidString(p.Value+p.Reason) || p.Source == "" || p.Field == "" || p.Reason == "" {
			t.Fatalf("problem %+v", p)
		}
	}
	if res.Topology == nil {
		return
	}
	if n := res.Topology.Len(); n < 1 || n > topology.MaxCards {
		t.Fatalf("%d cards", n)
	}
	seen := map[string]int{}
	for i := range res.Topology.Len() {
		c := res.Topology.Card(i)
		if first, ok := seen[c.UUID]; ok && c.UUID != "" && (c.Healthy || res.Topology.Card(first).Healthy) {
			t.Fatalf("cards %d and %d have one UUID, and one of them is usable", first, i)
		}
		seen[c.UUID] = i
		if c.VRAMBytes < 0 || c.VRAMBytes > topology.MaxVRAMBytes || c.Healthy && c.Fault != "" {
			t.Fatalf("card %d: %+v", i, c)
		}
	}
}

// TestCacheEqualsResolve feeds random updates of a few nodes to a cache and to Resolve.
func TestCacheEqualsResolve(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		o := Options{MaxAge: 10 * time.Minute}
		c := NewCache(o)
		last := map[string]Result{}
		now := start
		var w world
		version := 0
		for range rapid.IntRange(1, 12).Draw(t, "updates") {
			name := rapid.SampledFrom([]string{"n1", "n2"}).Draw(t, "node")
			now = now.Add(time.Duration(rapid.IntRange(-5, 10).Draw(t, "minutes")) * time.Minute)
			switch step := rapid.IntRange(0, 3).Draw(t, "step"); {
			case step == 0:
				c.Forget(name)
				delete(last, name)
				if c.Len() != len(last) {
					t.Fatalf("the cache holds %d nodes, %d are live", c.Len(), len(last))
				}
				continue
			case step == 1 && w.node != nil: // another object with the same content
			default:
				w = genWorld(t)
				version++
			}
			node := w.node.DeepCopy()
			node.Name = name
			node.Annotations["example.com/heartbeat"] = fmt.Sprint(now.Unix())
			list := make(sliceList, len(w.slices))
			for i := range list {
				list[i] = w.slices[i].DeepCopy()
				list[i].Spec.NodeName = &name
				list[i].UID, list[i].ResourceVersion = types.UID(fmt.Sprint(name, i)), fmt.Sprint(version)
			}
			o.Now = now
			want := Resolve(node, list, o)
			got, changed := c.Resolve(node, list, now)
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("the cache says\n%s, want\n%s", dump(got), dump(want))
			}
			old, known := last[name]
			if wantChanged := !known || !sameResult(old, want); changed != wantChanged {
				t.Fatalf("changed is %v, want %v", changed, wantChanged)
			}
			last[name] = want
		}
		for name := range last {
			c.Forget(name)
		}
		if c.Len() != 0 || len(c.shared) != 0 {
			t.Fatalf("%d nodes and %d shared results are left", c.Len(), len(c.shared))
		}
	})
}
