package checker

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const gib = int64(1) << 30

// machine is a node of n cards of 64 GiB: a slice is 1 GiB.
func machine(name string, n int) Node {
	node := Node{Name: name, Offered: n, Open: true}
	for i := range n {
		node.Cards = append(node.Cards, NodeCard{UUID: fmt.Sprintf("%s-%d", name, i), VRAMBytes: 64 * gib, Healthy: true})
	}
	return node
}

// hold is a card of a record.
type hold struct {
	index int
	mask  uint64
	bytes int64
}

func whole(index int) hold { return hold{index, wholeMask, 64 * gib} }

func recordOf(node string, holds ...hold) string {
	r := record{Version: 1, Node: node}
	for _, h := range holds {
		milli := 0
		if h.mask == wholeMask {
			milli = wholeMilli
		}
		r.Cards = append(r.Cards, cardRecord{
			Index: h.index, UUID: fmt.Sprintf("%s-%d", node, h.index), SliceMask: fmt.Sprintf("%#x", h.mask), VRAMBytes: h.bytes, ComputeMilli: milli,
		})
	}
	text, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func waiting(name string, cards int) Pod {
	return Pod{UID: "uid-" + name, Name: "ns/" + name, Cards: cards}
}

func bound(name, node string, holds ...hold) Pod {
	p := waiting(name, len(holds))
	p.Node, p.Record, p.HasRecord = node, recordOf(node, holds...), true
	if len(holds) > 0 && holds[0].mask != wholeMask {
		p.VRAMBytes = holds[0].bytes
	}
	return p
}

func changed(p Pod, change func(*Pod)) Pod {
	change(&p)
	return p
}

// cluster is Laws with the nodes n1, of 4 cards, and n2, of 2.
func cluster() *Laws {
	l := NewLaws()
	l.SeeNode(machine("n1", 4), 0)
	l.SeeNode(machine("n2", 2), 0)
	return l
}

func lawsOf(bad []Violation) []string {
	var names []string
	for _, v := range bad {
		names = append(names, v.Law)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// TestLaws feeds pods in order; the last one breaks the law, those before break none.
func TestLaws(t *testing.T) {
	tests := map[string]struct {
		pods    []Pod
		wantLaw string // "" for none
		want    string // part of the text
	}{
		"apart":                  {[]Pod{bound("a", "n1", whole(0)), bound("b", "n1", whole(1))}, "", ""},
		"a card sold twice":      {[]Pod{bound("a", "n1", whole(0), whole(1)), bound("b", "n1", whole(1))}, "sold-twice", "ns/a"},
		"the same pod again":     {[]Pod{bound("a", "n1", whole(0)), bound("a", "n1", whole(0))}, "", ""},
		"after the first ended":  {[]Pod{bound("a", "n1", whole(0)), changed(bound("a", "n1", whole(0)), func(p *Pod) { p.Ended = true }), bound("b", "n1", whole(0))}, "", ""},
		"first is terminating":   {[]Pod{bound("a", "n1", whole(0)), changed(bound("a", "n1", whole(0)), func(p *Pod) { p.Terminating = true }), bound("b", "n1", whole(0))}, "sold-twice", ""},
		"shares apart":           {[]Pod{bound("a", "n1", hold{0, 0xff, 8 * gib}), bound("b", "n1", hold{0, 0xff00, 8 * gib})}, "", ""},
		"shares on one slice":    {[]Pod{bound("a", "n1", hold{0, 0xff, 8 * gib}), bound("b", "n1", hold{0, 0xff80, 9 * gib})}, "sold-twice", "0x80"},
		"shares beyond the card": {[]Pod{bound("a", "n1", hold{0, 0xff, 40 * gib}), bound("b", "n1", hold{0, 0xff00, 40 * gib})}, "sold-twice", "68719476736"},
		"whole beside a share":   {[]Pod{bound("a", "n1", hold{0, 0xff, 8 * gib}), bound("b", "n1", whole(0))}, "sold-twice", ""},
		"moved":                  {[]Pod{bound("a", "n1", whole(0)), bound("a", "n2", whole(0))}, "moved", "n2"},
		"unbound again":          {[]Pod{bound("a", "n1", whole(0)), waiting("a", 1)}, "moved", ""},
		"no record":              {[]Pod{changed(bound("a", "n1", whole(0)), func(p *Pod) { p.HasRecord, p.Record = false, "" })}, "record", "without a record"},
		"no GPUs, no record":     {[]Pod{changed(waiting("a", 0), func(p *Pod) { p.Node = "n1" })}, "", ""},
		"garbage":                {[]Pod{changed(bound("a", "n1", whole(0)), func(p *Pod) { p.Record = "{" })}, "record", "cannot be read"},
		"another version":        {[]Pod{changed(bound("a", "n1", whole(0)), func(p *Pod) { p.Record = `{"v":2,"node":"n1","cards":[]}` })}, "record", "v is 2"},
		"another node":           {[]Pod{changed(bound("a", "n1", whole(0)), func(p *Pod) { p.Record = recordOf("n2", whole(0)) })}, "record", "says n2"},
		"too few cards":          {[]Pod{changed(bound("a", "n1", whole(0)), func(p *Pod) { p.Cards = 2 })}, "record", "asks for 2"},
		"a card twice":           {[]Pod{bound("a", "n1", whole(0), whole(0))}, "record", "named twice"},
		"a card that is not":     {[]Pod{bound("a", "n1", whole(4))}, "record", "no healthy card"},
		"a node that is not":     {[]Pod{bound("a", "n9", whole(0))}, "record", "never was"},
		"part instead of whole":  {[]Pod{changed(bound("a", "n1", hold{0, 1, gib}), func(p *Pod) { p.VRAMBytes = 0 })}, "record", "not held whole"},
		"too small a share":      {[]Pod{changed(bound("a", "n1", hold{0, 1, gib}), func(p *Pod) { p.VRAMBytes = 2 * gib })}, "record", "asked for"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			l := cluster()
			last := len(tt.pods) - 1
			for i, p := range tt.pods {
				bad := l.SeePod(p, time.Second)
				if i < last && bad != nil {
					t.Fatalf("pod %d: %v", i, bad)
				}
				if i < last {
					continue
				}
				if got := lawsOf(bad); tt.wantLaw == "" && got != nil || tt.wantLaw != "" && !slices.Equal(got, []string{tt.wantLaw}) {
					t.Fatalf("violations %v, want law %q", bad, tt.wantLaw)
				}
				if tt.wantLaw != "" && !strings.Contains(bad[0].Text, tt.want) {
					t.Errorf("%q does not say %q", bad[0].Text, tt.want)
				}
			}
		})
	}
}

// TestSoldTwiceNamesAllInvolved: a report is picked from the log by these names.
func TestSoldTwiceNamesAllInvolved(t *testing.T) {
	l := cluster()
	l.SeePod(bound("a", "n1", whole(3)), 0)
	bad := l.SeePod(bound("b", "n1", whole(3)), 0)
	if len(bad) != 1 || !slices.Equal(bad[0].About, []string{"n1", "n1-3", "ns/a", "ns/b"}) {
		t.Errorf("violations %+v, want one about n1, n1-3, ns/a and ns/b", bad)
	}
}

// TestDamagedRecords: a pod whose record was changed keeps the number of its cards and no more.
func TestDamagedRecords(t *testing.T) {
	l := cluster()
	a := bound("a", "n2", whole(0))
	l.SeePod(a, 0)
	damaged := changed(a, func(p *Pod) { p.HasRecord, p.Record = false, "" })
	if bad := l.SeePod(damaged, 0); bad != nil || !l.Damaged(a.UID) {
		t.Fatalf("violations %v, damaged %t after the damage", bad, l.Damaged(a.UID))
	}
	if bad := l.SeePod(bound("b", "n2", whole(0)), 0); bad != nil {
		t.Errorf("the card whose holder nobody can name: %v", bad)
	}
	if got := lawsOf(l.SeePod(bound("c", "n2", whole(1)), 0)); !slices.Equal(got, []string{"count"}) {
		t.Errorf("a third card of two: %v, want the law count", got)
	}
	l.SeePod(a, 0)
	if !l.Damaged(a.UID) {
		t.Error("a pod whose record came back counts as undamaged: what happened between is not known")
	}
}

// TestNodesChange: a card that left, fell sick or went with its node may be bound for as long as news may be late.
func TestNodesChange(t *testing.T) {
	sick := machine("n1", 4)
	sick.Cards[3].Healthy = false
	tests := map[string]func(*Laws){
		"card gone": func(l *Laws) { l.SeeNode(machine("n1", 3), time.Minute) },
		"card sick": func(l *Laws) { l.SeeNode(sick, time.Minute) },
		"node gone": func(l *Laws) { l.GoneNode("n1", time.Minute) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			for after, want := range map[time.Duration]bool{Stale: true, Stale + 1: false} {
				l := cluster()
				change(l)
				if bad := l.SeePod(bound("a", "n1", whole(3)), time.Minute+after); (bad == nil) != want {
					t.Errorf("bound %v later: %v", after, bad)
				}
			}
		})
	}
	for heard, want := range map[time.Duration]bool{time.Minute + 1: false, time.Hour: true} {
		l := cluster()
		l.Heard = func(from, to time.Duration) bool { return from <= heard && heard <= to }
		l.GoneNode("n1", time.Minute)
		if bad := l.SeePod(bound("a", "n1", whole(3)), time.Minute+2*Stale); (bad == nil) != want {
			t.Errorf("bound by a scheduler that heard of nodes at %v: %v", heard, bad)
		}
	}
	l := cluster()
	l.GoneNode("n1", time.Minute)
	l.SeeNode(machine("n1", 4), 2*time.Minute)
	l.SeePod(bound("a", "n1", whole(3)), 3*time.Minute)
	if got := lawsOf(l.SeePod(bound("b", "n1", whole(3)), 3*time.Minute)); !slices.Equal(got, []string{"sold-twice"}) {
		t.Errorf("a card of a node that returned: %v", got)
	}
}

// TestGonePodsHoldNothing: and a name that returns is another pod.
func TestGonePodsHoldNothing(t *testing.T) {
	l := cluster()
	l.SeePod(bound("a", "n1", whole(0)), 0)
	l.GonePod("uid-a")
	next := changed(bound("a", "n1", whole(0)), func(p *Pod) { p.UID = "another" })
	if bad := l.SeePod(next, 0); bad != nil {
		t.Error(bad)
	}
}

// TestFromObjects reads what the API server shows.
func TestFromObjects(t *testing.T) {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: "a", UID: "u", Labels: map[string]string{groupKey: "g"},
			Annotations: map[string]string{vramCardsKey: "2", recordKey: "text"},
		},
		Spec: v1.PodSpec{NodeName: "n1", Containers: []v1.Container{{
			Resources: v1.ResourceRequirements{Requests: v1.ResourceList{vramResource: resource.MustParse("1Gi")}},
		}}},
		Status: v1.PodStatus{Phase: v1.PodFailed},
	}
	want := Pod{UID: "u", Name: "ns/a", Node: "n1", Group: "ns/g", Ended: true, Cards: 2, VRAMBytes: gib, Record: "text", HasRecord: true}
	if got := FromPod(pod); got != want {
		t.Errorf("pod %+v, want %+v", got, want)
	}
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: map[string]string{topologyKey: `{"v":1,"cards":[{"uuid":"x","vramBytes":5},{"uuid":"y","healthy":false}]}`}},
		Status:     v1.NodeStatus{Allocatable: v1.ResourceList{gpuResource: resource.MustParse("2")}},
	}
	n, err := FromNode(node)
	if err != nil || n.Offered != 2 || !n.Open || !slices.Equal(n.Cards, []NodeCard{{"x", 5, true}, {"y", 0, false}}) {
		t.Errorf("node %+v, error %v", n, err)
	}
	node.Annotations[topologyKey] = "{"
	if _, err := FromNode(node); err == nil {
		t.Error("a description that cannot be read is no error")
	}
}
