package gang

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
)

// TestScripts plays the stories in testdata/scripts.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", playScript)
}

// playScript plays one story. A script is one "run" after another; every line is one operation:
//
//	group NAME min=4 [timeout=20s] [loss=Keep|Replace|Evict] [recorded=4] [ran]   a new PodGroup
//	config [ttl=5s] [permit=30s] [backoff=10s] [max=60s]                         before the group
//	spec min=4 ...        the PodGroup changes
//	see P... [gated|running|succeeded|failed|terminating|lost|on=N]              MemberSeen of each, unbound by default
//	gone P..., bound P..., node-gone N, group-gone, cured, urgent
//	plan P@N...           what a planner would tell
//	no-plan REASON        it found nothing
//	try P...              PreFilter
//	enqueue P...          PreEnqueue
//	reserve P...          Permit, on the planned node, or on N with P@N
//	refuse P N REASON     N may be "-"
//	unreserve P REASON
//	at T                  time passes until T; a Tick comes whenever one is due
//	show                  where the gang stands
//
// The actions of each operation follow it, indented. After each, the invariants are checked.
func playScript(t *testing.T, path string) {
	s := &script{t: t, config: Config{
		PermitTimeout: 30 * time.Second, PlanTTL: 5 * time.Second, BackoffInitial: 10 * time.Second, BackoffMax: time.Minute,
	}}
	datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd != "run" {
			d.Fatalf(t, "unknown directive %q", d.Cmd)
		}
		s.out.Reset()
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSpace(line)
			if op, _, _ := strings.Cut(line, " "); op != "show" && op != "at" {
				fmt.Fprintf(&s.out, "%s\n", line)
			}
			s.play(strings.Fields(line))
		}
		return s.out.String()
	})
}

// epoch is time zero of scripts and tests.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

type script struct {
	t      *testing.T
	config Config
	state  *State
	now    time.Duration // since epoch
	out    strings.Builder
}

func (s *script) play(f []string) {
	args, text := f[1:], strings.Join(f[1:], " ")
	switch f[0] {
	case "config":
		s.configure(args)
	case "group":
		s.group(args)
	case "spec":
		s.do(SpecChanged{s.spec(args)})
	case "see":
		s.see(args)
	case "plan":
		s.plan(args)
	case "no-plan":
		s.do(PlanFailed{text})
	case "node-gone":
		s.do(NodeGone{ledger.NodeName(text)})
	case "group-gone":
		s.do(GroupGone{})
	case "cured":
		s.do(Cured{})
	case "urgent":
		s.do(Urgent{})
	case "refuse":
		s.do(MemberRefused{ledger.PodUID(f[1]), ledger.NodeName(strings.Trim(f[2], "-")), strings.Join(f[3:], " ")})
	case "unreserve":
		s.do(MemberUnreserved{ledger.PodUID(f[1]), strings.Join(f[2:], " ")})
	case "gone", "bound", "reserve", "try", "enqueue":
		for _, p := range args {
			s.pod(f[0], p)
		}
	case "at":
		s.passTo(text)
	case "show":
		s.show()
	default:
		s.t.Fatalf("unknown operation %q", f)
	}
}

// do has an event decided and prints the actions.
func (s *script) do(e Event) {
	s.t.Helper()
	var actions []Action
	s.state, actions = Decide(s.state, e, s.time())
	for _, a := range actions {
		fmt.Fprintf(&s.out, "  %s\n", render(a))
	}
	if err := s.state.Check(); err != nil {
		s.t.Fatalf("after %#v: %v", e, err)
	}
}

func (s *script) time() time.Time { return epoch.Add(s.now) }

func render(a Action) string {
	switch a := a.(type) {
	case Release:
		return "release " + list(a.Pods)
	case Reject:
		return "reject " + list(a.Pods) + " - " + a.Reason
	case Allow:
		return "allow " + list(a.Pods)
	case Activate:
		return "activate " + list(a.Pods)
	case Evict:
		return "evict " + list(a.Pods) + " - " + a.Reason
	default:
		return fmt.Sprintf("%#v", a)
	}
}

func list[T ~string](items []T) string {
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = string(item)
	}
	return strings.Join(words, " ")
}

func (s *script) configure(args []string) {
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		fields := map[string]*time.Duration{
			"ttl": &s.config.PlanTTL, "permit": &s.config.PermitTimeout,
			"backoff": &s.config.BackoffInitial, "max": &s.config.BackoffMax,
		}
		*fields[key] = s.duration(value)
	}
}

func (s *script) group(args []string) {
	s.state = New("ns/"+args[0], s.config, s.spec(args[1:]))
	recorded, ran := 0, false
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "recorded":
			recorded = s.number(value)
		case "ran":
			ran = true
		}
	}
	s.state.Recorded(recorded, ran)
}

func (s *script) spec(args []string) Spec {
	var spec Spec
	policies := map[string]LossPolicy{"Replace": LossReplace, "Keep": LossKeep, "Evict": LossEvict}
	for _, arg := range args {
		key, value, _ := strings.Cut(arg, "=")
		switch key {
		case "min":
			spec.MinMember = s.number(value)
		case "timeout":
			spec.Timeout = s.duration(value)
		case "loss":
			spec.OnLoss = policies[value]
		}
	}
	return spec
}

func (s *script) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return d
}

func (s *script) see(args []string) {
	var pods []string
	seen := Sighting{Rank: -1}
	for _, arg := range args {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "gated":
			seen.Gated = true
		case "running":
			seen.Running = true
		case "succeeded":
			seen.Succeeded = true
		case "failed":
			seen.Failed = true
		case "terminating":
			seen.Terminating = true
		case "lost":
			seen.NodeLost = true
		case "on":
			seen.Node = ledger.NodeName(value)
		default:
			pods = append(pods, arg)
		}
	}
	for _, p := range pods {
		seen.UID, seen.Name = ledger.PodUID(p), p
		s.do(MemberSeen{seen})
	}
}

func (s *script) plan(args []string) {
	made := PlanMade{ID: "plan"}
	for _, arg := range args {
		pod, node, _ := strings.Cut(arg, "@")
		made.Members = append(made.Members, Placed{ledger.PodUID(pod), ledger.NodeName(node)})
	}
	s.do(made)
}

// pod plays one operation on one pod.
func (s *script) pod(op, arg string) {
	name, node, _ := strings.Cut(arg, "@")
	uid := ledger.PodUID(name)
	if m := s.state.members[uid]; m != nil && node == "" {
		node = string(m.node)
	}
	switch op {
	case "gone":
		s.do(MemberGone{uid})
	case "bound":
		s.do(MemberBound{uid, ledger.NodeName(node)})
	case "reserve":
		s.do(MemberReserved{uid, ledger.NodeName(node)})
	case "enqueue":
		reason, ok := s.state.Enqueue(uid)
		fmt.Fprintf(&s.out, "  %s: %v %s\n", uid, ok, reason)
	case "try":
		v := s.state.Admit(uid, s.time())
		switch v.Kind {
		case VerdictPlan:
			fmt.Fprintf(&s.out, "  %s: plan %d of %s\n", uid, v.Need, list(v.Candidates))
		case VerdictPlanned:
			fmt.Fprintf(&s.out, "  %s: planned on %s\n", uid, v.Node)
		default:
			fmt.Fprintf(&s.out, "  %s: %s %s\n", uid, v.Kind, v.Reason)
		}
	}
}

// passTo lets time pass, with a Tick whenever one is due. Ticks in a row that do the same are printed once.
func (s *script) passTo(text string) {
	until := s.duration(text)
	var first, last time.Duration
	repeated, times := "", 0
	flush := func() {
		if times > 1 {
			fmt.Fprintf(&s.out, "at %s to %s, %d times\n%s", first, last, times, repeated)
		} else if times == 1 {
			fmt.Fprintf(&s.out, "at %s\n%s", first, repeated)
		}
		times = 0
	}
	for ticks := 0; ; ticks++ {
		next, ok := s.state.Next()
		if !ok || next.After(epoch.Add(until)) {
			break
		}
		if ticks == 1000 {
			s.t.Fatalf("1000 ticks before %s", text)
		}
		s.now = max(s.now, next.Sub(epoch))
		before := s.out.Len()
		s.do(Tick{})
		acted := s.out.String()[before:]
		rest := s.out.String()[:before]
		s.out.Reset()
		s.out.WriteString(rest)
		if acted == "" {
			continue
		}
		if times > 0 && acted != repeated {
			flush()
		}
		if times == 0 {
			first, repeated = s.now, acted
		}
		last = s.now
		times++
	}
	flush()
	s.now = until
	fmt.Fprintf(&s.out, "at %s\n", text)
}

func (s *script) show() {
	c, st := s.state.Counts(), s.state.Status()
	fmt.Fprintf(&s.out, "%s:", s.state.Phase())
	for _, n := range []struct {
		name string
		n    int
	}{
		{"gated", c.Gated}, {"pending", c.Pending}, {"planned", c.Planned}, {"reserved", c.Reserved}, {"admitted", c.Admitted},
		{"leaving", c.Leaving}, {"bound", c.Bound}, {"alive", c.Alive}, {"succeeded", c.Succeeded}, {"failed", c.Failed},
	} {
		if n.n != 0 {
			fmt.Fprintf(&s.out, " %d %s", n.n, n.name)
		}
	}
	fmt.Fprintf(&s.out, "; status %s %d/%d/%d", st.Phase, st.Running, st.Succeeded, st.Failed)
	if n := s.state.Failures(); n > 0 {
		fmt.Fprintf(&s.out, "; failures %d", n)
	}
	if at := s.state.RetryAt(); !at.IsZero() {
		fmt.Fprintf(&s.out, ", again at %s", at.Sub(epoch))
	}
	if nodes := s.state.Excluded(s.time()); len(nodes) > 0 {
		fmt.Fprintf(&s.out, "; not on %s", list(nodes))
	}
	fmt.Fprintln(&s.out)
	if reason := s.state.Reason(); reason != "" {
		fmt.Fprintf(&s.out, "  %s\n", reason)
	}
}
