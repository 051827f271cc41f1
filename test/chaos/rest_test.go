package chaos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/gputopology/gpu-topology-scheduler/test/chaos/checker"
)

const (
	// patience bounds the wait for rest. It is no measure of speed: a cluster that needs longer has failed.
	patience = 4 * time.Minute
	// restPeriod is the time between two looks.
	restPeriod = 250 * time.Millisecond
	// calmLooks is how many looks in a row must find the cluster at rest, so that it is not in passing.
	calmLooks = 3
	// minimalLines is the length of the log that a violation is reported with.
	minimalLines = 60
)

// rest waits until the laws of rest hold, and ends the test where they do not come to.
func (d *driver) rest(client *http.Client, what string) {
	d.t.Helper()
	d.log.add(sawRest, nil, "rest is awaited: %s", what)
	deadline := d.now() + patience
	for good := 0; good < calmLooks; {
		d.wait(restPeriod)
		bad, states, err := d.look(client)
		switch {
		case err == nil && bad == nil:
			good++
			continue
		case d.now() < deadline:
			good = 0
			continue
		case err != nil:
			bad = append(bad, checker.Violation{Law: "test", Text: err.Error()})
		}
		d.log.add(sawRest, nil, "no rest in %v: %s", patience, what)
		d.report(bad)
		d.reportStates(states)
		d.t.FailNow()
	}
	if bad := d.stats.needless(d.unheard); len(bad) > 0 {
		d.report(bad)
		d.t.FailNow()
	}
	d.stats.restsReached++
	d.log.add(sawRest, nil, "at rest: %s", what)
}

// living is the field selector of the scheduler's own informer of pods.
const living = "status.phase!=Succeeded,status.phase!=Failed"

// unheard reports whether a sweep released what a pod held of which the replica heard nothing as long as it was there: whoever
// begins to lead reads the bound pods from the API server, and then no event tells of the end of one that a watch never showed.
func (d *driver) unheard(life string, repair checker.Repair) bool {
	if repair.Kind != "orphan" {
		return false
	}
	from, to, over := d.log.span(repair.Pod)
	if !over {
		return false
	}
	for _, r := range d.replicas {
		if strings.HasPrefix(life, r.name+" ") {
			said := func(from, to time.Duration) bool {
				return r.proxy.Said(podsPath, living, d.started.Add(from), d.started.Add(to))
			}
			return said(0, d.now()) && !said(from, to)
		}
	}
	return false
}

// heardOfNodes reports whether a watch told every replica something of nodes between two moments.
func (d *driver) heardOfNodes(from, to time.Duration) bool {
	for _, r := range d.replicas {
		said := func(from, to time.Duration) bool {
			return r.proxy.Said("/api/v1/nodes", "", d.started.Add(from), d.started.Add(to))
		}
		if said(0, d.now()) && !said(from, to) {
			return false
		}
	}
	return true
}

// errUnderWay means that something changed while it was looked at, or is known to be about to change.
var errUnderWay = errors.New("pods change")

// look compares both sides once.
func (d *driver) look(client *http.Client) ([]checker.Violation, []checker.State, error) {
	ctx, cancel := context.WithTimeout(d.ctx, 10*time.Second)
	defer cancel()
	before, err := d.versions(ctx)
	if err != nil {
		return nil, nil, err
	}
	var states []checker.State
	for _, r := range d.replicas {
		s, err := checker.FetchState(ctx, client, r.name, r.state)
		if err != nil {
			return nil, states, fmt.Errorf("state of %s: %w", r.name, err)
		}
		states = append(states, s)
	}
	m, after, err := d.moment(ctx)
	switch {
	case err != nil:
		return nil, states, err
	case !equal(before, after), d.busy():
		return nil, states, errUnderWay
	}
	bad, same := d.view.judge(m, after, states)
	if !same {
		return nil, states, errUnderWay
	}
	return bad, states, nil
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for uid, version := range a {
		if b[uid] != version {
			return false
		}
	}
	return true
}

func (d *driver) versions(ctx context.Context) (map[string]string, error) {
	list, err := d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	versions := map[string]string{}
	for i := range list.Items {
		versions[string(list.Items[i].UID)] = list.Items[i].ResourceVersion
	}
	return versions, nil
}

func (d *driver) moment(ctx context.Context) (checker.Moment, map[string]string, error) {
	var m checker.Moment
	nodes, err := d.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return m, nil, err
	}
	for i := range nodes.Items {
		n, err := checker.FromNode(&nodes.Items[i])
		if err != nil {
			return m, nil, err
		}
		m.Nodes = append(m.Nodes, n)
	}
	groups, err := d.groups.List(ctx, metav1.ListOptions{})
	if err != nil {
		return m, nil, err
	}
	for i := range groups.Items {
		g := &groups.Items[i]
		quorum, _, err := unstructured.NestedInt64(g.Object, "spec", "minMember")
		if err != nil {
			return m, nil, err
		}
		m.Groups = append(m.Groups, checker.Group{Name: namespace + "/" + g.GetName(), UID: string(g.GetUID()), MinMember: int(quorum)})
	}
	pods, err := d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return m, nil, err
	}
	versions := map[string]string{}
	for i := range pods.Items {
		m.Pods = append(m.Pods, checker.FromPod(&pods.Items[i]))
		versions[string(pods.Items[i].UID)] = pods.Items[i].ResourceVersion
	}
	return m, versions, nil
}

// busy is true while the test itself has things to do.
func (d *driver) busy() bool {
	if len(d.lateGroups) > 0 {
		return true
	}
	for _, r := range d.replicas {
		if !r.up() || r.paused {
			return true
		}
	}
	for _, s := range d.view.podsByName() {
		switch s.stage {
		case "stopping":
			return true
		case "bound":
			r := d.jobs[owner(s.pod)]
			if r == nil || s.pod.Status.Phase != v1.PodRunning || r.finish[s.pod.Name] != "" {
				return true
			}
		}
	}
	return false
}

// calmDown ends all faults.
func (d *driver) calmDown() {
	d.calm = true
	for _, r := range d.replicas {
		r.proxy.Disarm()
	}
	d.log.add(sawRest, nil, "faults are withdrawn")
}

// heal makes the nodes whole and deletes the pods whose cards are not certain.
func (d *driver) heal(machines []*machine) {
	listed := map[string]map[string]bool{}
	for _, m := range machines {
		d.applyNode(m)
		listed[m.name] = map[string]bool{}
		for i := range m.cards {
			listed[m.name][m.uuid(i)] = true
		}
	}
	for _, pod := range d.view.undecided(listed) {
		d.deletePod(pod.Name, nil)
	}
	d.log.add(sawRest, nil, "nodes are whole and pods of uncertain cards are deleted")
}

// drain deletes everything.
func (d *driver) drain() {
	for _, name := range sortedKeys(d.jobs) {
		if r := d.jobs[name]; !r.ended {
			d.remove(r.job, false, false)
		}
	}
	d.log.add(sawRest, nil, "all jobs are deleted")
}

// empty fails the test where a replica holds anything of an empty cluster. AtRest has compared pods and nodes already.
func (d *driver) empty(client *http.Client) {
	_, states, err := d.look(client)
	d.must(err, "look at the empty cluster")
	capacity := 0
	for _, m := range d.machines {
		capacity += m.cards
	}
	for _, s := range states {
		if s.Summary.Held != 0 || s.Summary.Quarantined != 0 || s.Summary.Free != capacity || len(s.Pods) != 0 {
			d.t.Errorf("%s holds something of the empty cluster: %+v, %d pods; want %d cards free", s.Replica, s.Summary, len(s.Pods), capacity)
		}
	}
}

// report prints what was violated with the part of the log that concerns it.
func (d *driver) report(bad []checker.Violation) {
	const most = 20
	var about []string
	var text strings.Builder
	for i, v := range bad {
		if i < most {
			fmt.Fprintf(&text, "  %s\n", v)
		}
		about = append(about, v.About...)
	}
	if len(bad) > most {
		fmt.Fprintf(&text, "  and %d more\n", len(bad)-most)
	}
	slices.Sort(about)
	about = slices.Compact(about)
	d.t.Errorf("seed %d, step %d: violated\n%sinvolved: %s\nwhat happened to them:\n%s\nreplay: make chaos SEED=%d DURATION=%v\nall logs: %s",
		*seedFlag, d.steps, text.String(), strings.Join(about, " "), d.log.minimal(about, minimalLines), *seedFlag, *durationFlag, d.dir)
	d.reportPods(about)
}

// reportPods prints the pods involved as the API server shows them.
func (d *driver) reportPods(about []string) {
	list, err := d.client.CoreV1().Pods(namespace).List(d.ctx, metav1.ListOptions{})
	if err != nil {
		d.t.Log(err)
		return
	}
	var text strings.Builder
	for i := range list.Items {
		p := &list.Items[i]
		if !slices.Contains(about, namespace+"/"+p.Name) && !slices.Contains(about, p.Spec.NodeName) {
			continue
		}
		fmt.Fprintf(&text, "  %s %s %s node %q record %s\n", p.Name, short(p), p.Status.Phase, p.Spec.NodeName, p.Annotations[recordKey])
		for _, c := range p.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				fmt.Fprintf(&text, "      %s\n", c.Message)
			}
		}
	}
	d.t.Logf("pods involved, as the API server shows them:\n%s", text.String())
}

// reportStates prints what the replicas say.
func (d *driver) reportStates(states []checker.State) {
	for _, s := range states {
		d.t.Logf("%s: %+v\n  pods %+v\n  nodes %+v\n  gangs %+v", s.Replica, s.Summary, s.Pods, s.Nodes, s.Gangs)
	}
}
