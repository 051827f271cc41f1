package checker

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// scene is a moment with one replica that agrees with it: n1 has 4 cards, n2 has 2; ns/a holds two cards of n1; ns/g has two
// of two members bound, on n2; ns/s holds half of the last card of n1.
type scene struct {
	laws   *Laws
	moment Moment
	states []State
}

func newScene() *scene {
	s := &scene{laws: NewLaws()}
	s.moment.Nodes = []Node{machine("n1", 4), machine("n2", 2)}
	member := func(name string, i int) Pod {
		return changed(bound(name, "n2", whole(i)), func(p *Pod) { p.Group = "ns/g" })
	}
	s.moment.Groups = []Group{{Name: "ns/g", UID: "g", MinMember: 2}}
	s.moment.Pods = []Pod{
		bound("a", "n1", whole(0), whole(1)), member("g0", 0), member("g1", 1), bound("s", "n1", hold{3, 0xffffffff, 32 * gib}),
	}
	s.states = []State{
		{Replica: "r0", Summary: Summary{Synced: true, Leading: true}, Gangs: []Gang{{Gang: "ns/g", Phase: "running"}}},
		{Replica: "r1", Summary: Summary{Synced: true}, Gangs: []Gang{{Gang: "ns/g", Phase: "running"}}},
	}
	for i := range s.states {
		for _, p := range s.moment.Pods {
			s.states[i].Pods = append(s.states[i].Pods, heldOf(p))
		}
		s.states[i].Nodes = []HeldNode{{Name: "n1", Cards: 4, Free: 1}, {Name: "n2", Cards: 2, Free: 0}}
	}
	return s
}

func heldOf(p Pod) HeldPod {
	r, _, err := readRecord(p.Record)
	if err != nil {
		panic(err)
	}
	return HeldPod{UID: p.UID, Pod: p.Name, Node: p.Node, Stage: "bound", Cards: r.Cards}
}

func (s *scene) check() []Violation {
	for _, n := range s.moment.Nodes {
		s.laws.SeeNode(n, 0)
	}
	for _, p := range s.moment.Pods {
		s.laws.SeePod(p, 0)
	}
	return AtRest(s.laws, s.moment, s.states)
}

func (s *scene) pod(name string) *Pod {
	return &s.moment.Pods[slices.IndexFunc(s.moment.Pods, func(p Pod) bool { return p.Name == "ns/"+name })]
}

func (s *scene) held(name string) *HeldPod {
	return &s.states[1].Pods[slices.IndexFunc(s.states[1].Pods, func(p HeldPod) bool { return p.Pod == "ns/"+name })]
}

// damage edits a record after its pod was seen bound.
func (s *scene) damage(name string) {
	p := s.pod(name)
	s.check()
	p.Record = "garbage"
}

// TestAtRest breaks one thing at a time.
func TestAtRest(t *testing.T) {
	tests := map[string]struct {
		change  func(*scene)
		wantLaw string
		want    string
	}{
		"in order":          {func(*scene) {}, "", ""},
		"without states":    {func(s *scene) { s.states = nil }, "", ""},
		"a leak":            {func(s *scene) { s.moment.Pods = s.moment.Pods[:3] }, "ledger", "no live pod"},
		"held by an ended":  {func(s *scene) { s.pod("a").Ended = true }, "ledger", "ns/a"},
		"held back":         {func(s *scene) { s.moment.Pods = s.moment.Pods[:3]; s.held("s").Cooling = true }, "ledger", "is gone"},
		"not known":         {func(s *scene) { s.states[1].Pods = s.states[1].Pods[1:] }, "ledger", "does not know that pod ns/a"},
		"assumed":           {func(s *scene) { s.held("a").Stage = "assumed" }, "ledger", "as assumed"},
		"on another node":   {func(s *scene) { s.held("a").Node = "n2" }, "ledger", "it is on n1"},
		"other cards":       {func(s *scene) { s.held("a").Cards = heldOf(bound("a", "n1", whole(0), whole(2))).Cards }, "ledger", "its record says"},
		"not by name":       {func(s *scene) { s.held("a").Cards, s.held("a").UnknownCards = nil, 2 }, "ledger", "2 unknown"},
		"unreadable mask":   {func(s *scene) { s.held("a").Cards[0].SliceMask = "zz" }, "ledger", "sliceMask"},
		"damaged, counted":  {func(s *scene) { s.damage("a"); s.held("a").Cards, s.held("a").UnknownCards = nil, 2 }, "", ""},
		"damaged, too few":  {func(s *scene) { s.damage("a"); s.held("a").Cards, s.held("a").UnknownCards = nil, 1 }, "ledger", "asks for 2"},
		"not in sync":       {func(s *scene) { s.states[1].Summary.Synced = false }, "replica", "r1 is not in sync"},
		"unknown outcome":   {func(s *scene) { s.states[0].Summary.Suspects = 1 }, "replica", "unknown outcome"},
		"nobody leads":      {func(s *scene) { s.states[0].Summary.Leading = false }, "replica", "0 replicas lead"},
		"two lead":          {func(s *scene) { s.states[1].Summary.Leading = true }, "replica", "2 replicas lead"},
		"node not known":    {func(s *scene) { s.states[0].Nodes = s.states[0].Nodes[:1] }, "nodes", "does not know node n2"},
		"quarantine":        {func(s *scene) { s.states[0].Nodes[0].Quarantine = "contradiction" }, "nodes", "contradiction"},
		"wrong free":        {func(s *scene) { s.states[0].Nodes[0].Free = 2 }, "nodes", "2 are free"},
		"half a gang":       {func(s *scene) { s.moment.Groups[0].MinMember = 3 }, "gang", "needs 3 members: 2 are bound"},
		"a broken gang":     {func(s *scene) { s.moment.Groups[0].MinMember = 3; s.states[0].Gangs[0].Phase = "broken" }, "", ""},
		"a group that left": {func(s *scene) { s.moment.Groups = nil }, "", ""},
		"one waits":         {func(s *scene) { s.moment.Pods = append(s.moment.Pods, waiting("w", 1)) }, "fits", "ns/w"},
		"two wait":          {func(s *scene) { s.moment.Pods = append(s.moment.Pods, waiting("w", 2)) }, "", ""},
		"a share waits": {func(s *scene) {
			s.moment.Pods = append(s.moment.Pods, changed(waiting("w", 2), func(p *Pod) { p.VRAMBytes = 32 * gib }))
		}, "fits", "ns/w"},
		"too large a share": {func(s *scene) {
			s.moment.Pods = append(s.moment.Pods, changed(waiting("w", 2), func(p *Pod) { p.VRAMBytes = 33 * gib }))
		}, "", ""},
		"waits for a closed node": {func(s *scene) {
			s.moment.Nodes[0].Open = false
			s.moment.Pods = append(s.moment.Pods, waiting("w", 1))
		}, "", ""},
		"a gang waits": {func(s *scene) {
			s.moment.Groups = append(s.moment.Groups, Group{Name: "ns/h", MinMember: 1})
			s.moment.Pods = append(s.moment.Pods, changed(waiting("h0", 1), func(p *Pod) { p.Group = "ns/h" }))
		}, "fits", "gang ns/h"},
		"a gang of two waits for two": {func(s *scene) {
			s.moment.Groups = append(s.moment.Groups, Group{Name: "ns/h", MinMember: 2})
			for _, name := range []string{"h0", "h1"} {
				s.moment.Pods = append(s.moment.Pods, changed(waiting(name, 1), func(p *Pod) { p.Group = "ns/h" }))
			}
		}, "", ""},
		"a surplus member waits": {func(s *scene) {
			s.moment.Pods = append(s.moment.Pods, changed(waiting("g2", 1), func(p *Pod) { p.Group = "ns/g" }))
		}, "fits", "gang ns/g"},
		"its group is gone": {func(s *scene) {
			s.moment.Pods = append(s.moment.Pods, changed(waiting("h0", 1), func(p *Pod) { p.Group = "ns/h" }))
		}, "", ""},
		"not beside damage": {func(s *scene) {
			s.damage("a")
			s.moment.Pods = append(s.moment.Pods, waiting("w", 1))
		}, "", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScene()
			tt.change(s)
			bad := s.check()
			var texts []string
			for _, v := range bad {
				texts = append(texts, v.String())
			}
			if tt.wantLaw == "" {
				if bad != nil {
					t.Errorf("complaints: %q", texts)
				}
				return
			}
			if !slices.ContainsFunc(bad, func(v Violation) bool { return v.Law == tt.wantLaw && strings.Contains(v.Text, tt.want) }) {
				t.Errorf("complaints %q, want %q of law %s", texts, tt.want, tt.wantLaw)
			}
		})
	}
}

// TestSuccessOutlivesItsPod: a member that succeeded counts for its gang after it was deleted.
func TestSuccessOutlivesItsPod(t *testing.T) {
	s := newScene()
	s.moment.Groups[0].MinMember = 3
	s.check()
	done := changed(bound("g2", "n1", whole(2)), func(p *Pod) { p.Group, p.Ended, p.Succeeded = "ns/g", true, true })
	s.laws.SeePod(done, 0)
	s.laws.GonePod(done.UID)
	if bad := s.check(); bad != nil {
		t.Error(bad)
	}
}

// TestFetchState follows pages and refuses what is no answer.
func TestFetchState(t *testing.T) {
	answers := map[string]string{
		"/v1/summary":          `{"synced":true,"leading":true,"suspects":2}`,
		"/v1/pods?continue=":   `{"items":[{"uid":"a","stage":"bound","cards":[{"sliceMask":"0x1"}]}],"continue":"p2"}`,
		"/v1/pods?continue=p2": `{"items":[{"uid":"b","stage":"assumed","cooling":true}],"continue":""}`,
		"/v1/nodes?continue=":  `{"items":[{"name":"n1","free":3,"quarantine":"why"}]}`,
		"/v1/gangs?continue=":  `{"items":[{"gang":"ns/g","phase":"broken"}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.URL.Path
		if r.URL.Query().Has("continue") {
			key += "?continue=" + r.URL.Query().Get("continue")
		}
		text, ok := answers[key]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	s, err := FetchState(t.Context(), server.Client(), "r0", server.URL)
	if err != nil || len(s.Pods) != 2 || !s.Pods[1].Cooling || s.Nodes[0].Free != 3 || s.Gangs[0].Phase != "broken" || s.Summary.Suspects != 2 {
		t.Errorf("state %+v, error %v", s, err)
	}
	answers["/v1/pods?continue=p2"] = `{"items":[],"continue":"p2"}`
	if _, err := FetchState(t.Context(), server.Client(), "r0", server.URL); err == nil {
		t.Error("a list without end is no error")
	}
	delete(answers, "/v1/gangs?continue=")
	answers["/v1/pods?continue="] = `{"items":[]}`
	if _, err := FetchState(t.Context(), server.Client(), "r0", server.URL); err == nil {
		t.Error("a missing part is no error")
	}
}
