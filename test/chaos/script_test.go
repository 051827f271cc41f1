package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/test/chaos/faults"
)

// job is a pod, or the members of a gang.
type job struct {
	// name is that of the pod, or of the gang: its members are name-0, name-1, ...
	name string
	// size and quorum are 0 for a pod of no gang.
	size, quorum int
	// cards is what each pod asks for, mib the memory of each where it is not all.
	cards int
	mib   int64
	// onLoss is the policy of a gang, "" for the default.
	onLoss string
	// recreate says that members that vanish are created again.
	recreate bool
	// until is the step before which it does not end.
	until int
	// succeeds is how it ends, grace and keep how long its pods take to stop and how long they are listed afterwards.
	succeeds    bool
	grace, keep time.Duration
}

func (j *job) pods() []string {
	if j.size == 0 {
		return []string{j.name}
	}
	names := make([]string, j.size)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", j.name, i)
	}
	return names
}

// demand is the number of cards that all its pods want.
func (j *job) demand() int {
	if j.mib > 0 {
		return 1
	}
	return j.cards * max(j.size, 1)
}

// machine is a node as it should be.
type machine struct {
	name  string
	cards int
	mib   int64
	// series tells the cards of a replaced machine from those before.
	series int
	away   bool
	// sick and gone are cards by index.
	sick, gone []int
	// withheld is how many cards the kubelet does not offer.
	withheld int
}

// step is one thing that the driver does.
type step struct {
	number int
	text   string
	// about are the names that the step touches, as in violations.
	about []string
	// pause is the time to the next step.
	pause time.Duration
	run   func(*driver)
}

// fleet is what the cluster has.
func fleet() []*machine {
	var all []*machine
	for i := range 10 {
		all = append(all, &machine{name: fmt.Sprintf("n%d", i+1), cards: 8, mib: 81920})
	}
	return append(all, &machine{name: "m1", cards: 4, mib: 49152}, &machine{name: "m2", cards: 4, mib: 49152}, &machine{name: "s1", cards: 2, mib: 24576})
}

// script decides. It knows what it has decided and nothing else.
type script struct {
	rng      *rand.Rand
	steps    int
	named    int
	jobs     []*job
	machines []*machine
	// capacity is the number of cards.
	capacity int
	// upheaved is the step after the last upheaval.
	upheaved int
	// steady keeps every process alive and the leader the leader.
	steady bool
}

func newScript(seed uint64) *script {
	s := &script{rng: rand.New(rand.NewPCG(seed, 0x6770752d746f706f)), machines: fleet()}
	for _, m := range s.machines {
		s.capacity += m.cards
	}
	return s
}

// choice is something that may be decided, as likely as its weight.
type choice struct {
	weight int
	decide func() *step
}

// next decides what comes next.
func (s *script) next() *step {
	demand := 0
	for _, j := range s.jobs {
		demand += j.demand()
	}
	// Around full: what waits is as interesting as what runs.
	come, leave := 40, 8
	if demand > s.capacity*11/10 {
		come, leave = 8, 40
	}
	choices := []choice{
		{come, s.newPod}, {come, s.newShare}, {come / 2, s.newGang},
		{leave, s.end}, {leave, s.remove}, {8, s.loseMember}, {3, s.groupGone},
		{3, s.nodeAway}, {5, s.nodeBack}, {4, s.cardsChange}, {4, s.cardsBack},
		{4, s.damage},
		{30, s.arm}, {2, s.cutWatches}, {4, s.upheaval},
	}
	decided := s.decide(choices)
	s.steps++
	decided.number = s.steps
	decided.pause = s.milliseconds(5, 90)
	return decided
}

// decide draws one of the choices until one has something to decide.
func (s *script) decide(choices []choice) *step {
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	for {
		at := s.rng.IntN(total)
		for _, c := range choices {
			if at -= c.weight; at >= 0 {
				continue
			}
			if decided := c.decide(); decided != nil {
				return decided
			}
			break
		}
	}
}

// stepsOfPeace are left between two upheavals: about as long as another replica needs to take over and do some work.
const stepsOfPeace = 100

// upheaval is what may change the leader. After each the scheduler needs seconds to get back to work.
func (s *script) upheaval() *step {
	if s.steps < s.upheaved+stepsOfPeace {
		return nil
	}
	s.upheaved = s.steps + 1
	if s.steady {
		return s.decide([]choice{{2, s.cutOff}, {2, s.loseBlindly}, {2, s.hang}})
	}
	return s.decide([]choice{
		{3, s.kill}, {2, s.pauseReplica}, {2, s.pauseInBurst}, {2, s.killBeforeTheBlind}, {2, s.cutOff}, {2, s.loseBlindly}, {1, s.hang},
	})
}

// milliseconds draws a duration from low to high.
func (s *script) milliseconds(low, high int) time.Duration {
	return time.Duration(low+s.rng.IntN(high-low+1)) * time.Millisecond
}

// chance is true in percent of all cases.
func (s *script) chance(percent int) bool { return s.rng.IntN(100) < percent }

func pick[T any](s *script, from []T) T { return from[s.rng.IntN(len(from))] }

func (s *script) newJob(prefix string) *job {
	s.named++
	return &job{
		name: fmt.Sprintf("%s%d", prefix, s.named), cards: 1, succeeds: s.chance(80),
		grace: s.milliseconds(0, 1500), keep: s.milliseconds(0, 3000),
	}
}

func about(j *job) []string {
	names := []string{namespace + "/" + j.name}
	for _, name := range j.pods() {
		names = append(names, namespace+"/"+name)
	}
	return names
}

func (s *script) create(j *job, text string) *step {
	s.jobs = append(s.jobs, j)
	return &step{text: "create " + text, about: about(j), run: func(d *driver) { d.create(j) }}
}

func (s *script) newPod() *step {
	j := s.newJob("pod")
	j.cards = pick(s, []int{1, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8})
	return s.create(j, fmt.Sprintf("pod %s of %d cards", j.name, j.cards))
}

func (s *script) newShare() *step {
	j := s.newJob("share")
	j.mib = int64(1024 * (1 + s.rng.IntN(60)))
	j.cards = pick(s, []int{1, 1, 1, 2})
	return s.create(j, fmt.Sprintf("pod %s of %d MiB on each of %d cards", j.name, j.mib, j.cards))
}

func (s *script) newGang() *step {
	j := s.newJob("gang")
	j.size = pick(s, []int{2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 10, 12, 14, 16})
	j.quorum = j.size
	if s.chance(40) {
		j.quorum = 1 + s.rng.IntN(j.size)
	}
	j.cards = pick(s, []int{1, 1, 1, 2, 2, 4})
	if j.size*j.cards > s.capacity/2 {
		j.cards = 1
	}
	j.recreate = s.chance(60)
	j.onLoss = pick(s, []string{"", "", "Replace", "Keep", "Evict"})
	return s.create(j, fmt.Sprintf("gang %s of %d pods of %d cards, needs %d, on loss %q, recreated %t", j.name, j.size, j.cards, j.quorum, j.onLoss, j.recreate))
}

// take removes a random job that matches and may end; nil without any.
func (s *script) take(match func(*job) bool) *job {
	var at []int
	for i, j := range s.jobs {
		if match(j) && j.until <= s.steps {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	// The older of two: most jobs get to run before they end.
	i := min(pick(s, at), pick(s, at))
	j := s.jobs[i]
	s.jobs = slices.Delete(s.jobs, i, i+1)
	return j
}

func anyJob(*job) bool   { return true }
func isGang(j *job) bool { return j.size > 0 }

// end lets a job end by itself; what of it is not bound is deleted.
func (s *script) end() *step {
	j := s.take(anyJob)
	if j == nil {
		return nil
	}
	return &step{text: fmt.Sprintf("%s ends, succeeds %t", j.name, j.succeeds), about: about(j), run: func(d *driver) { d.end(j) }}
}

// remove deletes a job.
func (s *script) remove() *step {
	j := s.take(anyJob)
	if j == nil {
		return nil
	}
	force, groupFirst := s.chance(30), s.chance(50)
	text := fmt.Sprintf("delete %s, force %t", j.name, force)
	if j.size > 0 {
		text += fmt.Sprintf(", PodGroup first %t", groupFirst)
	}
	return &step{text: text, about: about(j), run: func(d *driver) { d.remove(j, force, groupFirst) }}
}

// keep returns a random job that stays in the script.
func (s *script) keep(match func(*job) bool) *job {
	var from []*job
	for _, j := range s.jobs {
		if match(j) {
			from = append(from, j)
		}
	}
	if from == nil {
		return nil
	}
	return pick(s, from)
}

// loseMember takes one member of a gang.
func (s *script) loseMember() *step {
	j := s.keep(isGang)
	if j == nil {
		return nil
	}
	i := s.rng.IntN(j.size)
	name := j.pods()[i]
	how := pick(s, []string{"deleted", "deleted by force", "fails", "succeeds"})
	return &step{
		text: fmt.Sprintf("member %s: %s", name, how), about: []string{namespace + "/" + j.name, namespace + "/" + name},
		run: func(d *driver) { d.loseMember(j, i, how) },
	}
}

// groupGone deletes a PodGroup and creates it again, at once or a little later.
func (s *script) groupGone() *step {
	j := s.keep(isGang)
	if j == nil {
		return nil
	}
	after := s.milliseconds(0, 1500)
	if s.chance(30) {
		after = 0
	}
	return &step{
		text: fmt.Sprintf("PodGroup %s is deleted and created again after %v", j.name, after), about: about(j),
		run: func(d *driver) { d.replaceGroup(j, after) },
	}
}

// nodeAway deletes a node; no more than two are away at a time.
func (s *script) nodeAway() *step {
	away := 0
	for _, m := range s.machines {
		if m.away {
			away++
		}
	}
	m := pick(s, s.machines)
	if away >= 2 || m.away {
		return nil
	}
	m.away = true
	return s.apply(m, "node "+m.name+" vanishes")
}

// nodeBack brings a node back, in three of ten cases another machine with other cards.
func (s *script) nodeBack() *step {
	m := pick(s, s.machines)
	if !m.away {
		return nil
	}
	m.away = false
	text := "node " + m.name + " returns"
	if s.chance(30) {
		m.series++
		m.sick, m.gone, m.withheld = nil, nil, 0
		text += " as another machine"
	}
	return s.apply(m, text)
}

func (s *script) cardsChange() *step {
	m := pick(s, s.machines)
	card := s.rng.IntN(m.cards)
	if m.away || slices.Contains(m.gone, card) || slices.Contains(m.sick, card) {
		return nil
	}
	switch s.rng.IntN(4) {
	case 0:
		m.gone = append(m.gone, card)
		return s.apply(m, fmt.Sprintf("card %d of node %s vanishes", card, m.name))
	case 1, 2:
		m.sick = append(m.sick, card)
		return s.apply(m, fmt.Sprintf("card %d of node %s falls sick", card, m.name))
	default:
		m.withheld = pick(s, []int{1, 2, m.cards})
		return s.apply(m, fmt.Sprintf("kubelet of node %s offers %d cards less", m.name, m.withheld))
	}
}

func (s *script) cardsBack() *step {
	m := pick(s, s.machines)
	if m.away || len(m.gone) == 0 && len(m.sick) == 0 && m.withheld == 0 {
		return nil
	}
	m.gone, m.sick, m.withheld = nil, nil, 0
	return s.apply(m, "all cards of node "+m.name+" are back")
}

// apply makes a node what its machine is now.
func (s *script) apply(m *machine, text string) *step {
	now := m.copy()
	return &step{text: text, about: []string{m.name}, run: func(d *driver) { d.applyNode(now) }}
}

func (m *machine) copy() *machine {
	c := *m
	c.gone, c.sick = slices.Clone(m.gone), slices.Clone(m.sick)
	return &c
}

// heal makes every machine whole.
func (s *script) heal() []*machine {
	var healed []*machine
	for _, m := range s.machines {
		m.away, m.gone, m.sick, m.withheld = false, nil, nil, 0
		healed = append(healed, m.copy())
	}
	return healed
}

// damage breaks the record of a pod.
func (s *script) damage() *step {
	j := s.keep(anyJob)
	if j == nil {
		return nil
	}
	i := s.rng.IntN(max(j.size, 1))
	name, how := j.pods()[i], pick(s, damages)
	return &step{
		text: fmt.Sprintf("record of %s: %s", name, how), about: []string{namespace + "/" + name},
		run: func(d *driver) { d.damage(j, i, how) },
	}
}

// arm orders a fault.
func (s *script) arm() *step {
	replica := s.rng.IntN(replicas)
	f := faults.Fault{
		Kind: pick(s, []faults.Kind{
			faults.Conflict, faults.TooMany, faults.TooManyWait, faults.ServerError, faults.ServerError, faults.Reset, faults.Lost, faults.Lost,
			faults.Delay, faults.Late, faults.Cut,
		}),
		Class: pick(s, []faults.Class{
			faults.Any, faults.Bind, faults.Bind, faults.Bind, faults.Bind, faults.Read, faults.Read, faults.Write, faults.Write, faults.List,
			faults.List, faults.Watch, faults.Lease,
		}),
		Times: 1 + s.rng.IntN(4),
		Delay: s.milliseconds(50, int(faults.MaxDelay/time.Millisecond)),
	}
	if f.Kind != faults.Delay && f.Kind != faults.Late {
		f.Delay = 0
	}
	if f.Class == faults.Lease && s.steady {
		f.Class = faults.List
	}
	if f.Class == faults.Watch && f.Kind == faults.Cut {
		f.Kind = faults.Reset // half of a stream that does not end is never there
	}
	return &step{
		text: fmt.Sprintf("replica %d: %s", replica, f), about: []string{replicaName(replica)},
		run: func(d *driver) { d.replicas[replica].proxy.Arm(f) },
	}
}

func (s *script) cutWatches() *step {
	replica, abrupt := s.rng.IntN(replicas), s.chance(50)
	return &step{
		text: fmt.Sprintf("replica %d: watches are cut, abruptly %t", replica, abrupt), about: []string{replicaName(replica)},
		run: func(d *driver) { d.cutWatches(replica, abrupt) },
	}
}

// cutOff cuts a replica's watches and keeps it from opening others for a while: it goes on with what it knows.
func (s *script) cutOff() *step {
	replica, times := s.rng.IntN(replicas), 10+s.rng.IntN(30)
	kind := pick(s, []faults.Kind{faults.TooMany, faults.ServerError, faults.Reset})
	return &step{
		text: fmt.Sprintf("replica %d: watches are cut, the next %d end with %s", replica, times, kind), about: []string{replicaName(replica)},
		run: func(d *driver) {
			d.replicas[replica].proxy.Arm(faults.Fault{Kind: kind, Class: faults.Watch, Times: times})
			d.replicas[replica].proxy.Arm(faults.Fault{Kind: kind, Class: faults.List, Times: times / 2})
			d.cutWatches(replica, true)
		},
	}
}

// target says which replica a step means; -1 is the leader.
func (s *script) target() (replica int, text string) {
	if s.chance(60) {
		return -1, "the leader"
	}
	replica = s.rng.IntN(replicas)
	return replica, fmt.Sprintf("replica %d", replica)
}

func (s *script) kill() *step {
	replica, text := s.target()
	after := s.milliseconds(0, 2000)
	return &step{
		text: fmt.Sprintf("kill -9 %s, start it again after %v", text, after), about: []string{replicaName(replica)},
		run: func(d *driver) { d.kill(replica, after) },
	}
}

func (s *script) pauseReplica() *step {
	replica, text := s.target()
	duration := s.milliseconds(500, 7000)
	return &step{
		text: fmt.Sprintf("SIGSTOP %s for %v", text, duration), about: []string{replicaName(replica)},
		run: func(d *driver) { d.pause(replica, duration) },
	}
}

// burst is a handful of pods that come at once.
func (s *script) burst(prefix string, least, more int, cards ...int) (jobs []*job, names string, touched []string) {
	var all []string
	for range least + s.rng.IntN(more) {
		j := s.newJob(prefix)
		j.cards = pick(s, cards)
		jobs, all, touched = append(jobs, j), append(all, j.name), append(touched, about(j)...)
	}
	s.jobs = append(s.jobs, jobs...)
	return jobs, strings.Join(all, ", "), touched
}

// pauseInBurst stops the leader while it binds, for longer than its lease: another one leads when it goes on.
func (s *script) pauseInBurst() *step {
	jobs, names, touched := s.burst("burst", 2, 6, 1, 1, 2, 4)
	duration := leaseDuration + s.milliseconds(500, 4000)
	return &step{
		text:  fmt.Sprintf("create pods %s and SIGSTOP the leader for %v", names, duration),
		about: append(touched, replicaName(-1)),
		run: func(d *driver) {
			for _, j := range jobs {
				d.create(j)
			}
			d.pause(-1, duration)
		},
	}
}

// podsPath is what informers of pods list and watch.
const podsPath = "/api/v1/pods"

// longestHang is long enough for the sweeps that confirm a suspicion, and for cooling, after another replica has begun to lead.
const longestHang = 30 * time.Second

// hang keeps a replica from hearing of pods, and nothing tells it.
func (s *script) hang() *step {
	replica, text := s.target()
	duration := s.milliseconds(1000, int(longestHang/time.Millisecond))
	return &step{
		text: fmt.Sprintf("%s: watches of pods hang for %v", text, duration), about: []string{replicaName(replica)},
		run: func(d *driver) { d.target(replica).proxy.Hang(podsPath, duration) },
	}
}

// killBeforeTheBlind has pods that the leader fails to bind and the standby sees; then the standby hears of pods no more, since
// its watches fail, or hang, the leader gives their cards to others, and is killed: the next one to lead knows less than the
// API server.
func (s *script) killBeforeTheBlind() *step {
	times := 4 + s.rng.IntN(9) // two for each try, each later than the one before
	hang, how := time.Duration(0), fmt.Sprintf("cut the standby off from pods %d times", times)
	if s.chance(50) {
		hang = s.milliseconds(5000, int(longestHang/time.Millisecond))
		how = fmt.Sprintf("let the standby's watches of pods hang for %v", hang)
	}
	first, firstNames, firstAbout := s.burst("first", 1, 4, 1, 2, 4)
	last, lastNames, lastAbout := s.burst("last", 3, 4, 1, 2, 4)
	for i, j := range last {
		j.until = s.steps + 4*stepsOfPeace // outlives that the standby does not hear of it
		if i < 2 {
			j.cards, j.mib = 1, 1024 // finds room where others wait
		}
	}
	after, restart := s.milliseconds(200, 900), s.milliseconds(0, 4000)
	if hang > 0 { // the standby leads next, and in peace until sweeps have seen twice what it does not hear of
		restart += leaseDuration
		s.upheaved += 3 * stepsOfPeace
	}
	return &step{
		text: fmt.Sprintf("the leader may not bind pods %s; %s, create pods %s and kill -9 the leader %v later, start it again after %v",
			firstNames, how, lastNames, after, restart),
		about: slices.Concat(firstAbout, lastAbout, []string{replicaName(-1)}),
		run: func(d *driver) {
			leader := d.target(-1)
			for _, j := range first {
				leader.proxy.Arm(faults.Fault{Kind: faults.Conflict, Class: faults.Bind, Path: "/" + j.name + "/", Times: 1})
				d.create(j)
			}
			d.wait(200 * time.Millisecond)
			for _, r := range d.replicas {
				switch {
				case r == leader:
				case hang > 0:
					r.proxy.Hang(podsPath, hang)
				default:
					d.blind(r, times)
				}
			}
			for _, j := range last {
				d.create(j)
			}
			d.waitForBind(last[0].name)
			d.wait(after)
			d.killReplica(leader, restart)
		},
	}
}

// loseBlindly loses the answers to binds of a leader that does not hear of pods either: only reading back tells it what
// became of them.
func (s *script) loseBlindly() *step {
	times, lost := 2+s.rng.IntN(6), 3+s.rng.IntN(6)
	jobs, names, touched := s.burst("lost", 4, 6, 1, 1, 2)
	return &step{
		text:  fmt.Sprintf("cut the leader off from pods %d times, lose the answers to its next %d binds and create pods %s", times, lost, names),
		about: append(touched, replicaName(-1)),
		run: func(d *driver) {
			leader := d.target(-1)
			d.blind(leader, times)
			leader.proxy.Arm(faults.Fault{Kind: faults.Lost, Class: faults.Bind, Times: lost})
			for _, j := range jobs {
				d.create(j)
			}
		},
	}
}
