package chaos

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gputopology/gpu-topology-scheduler/test/chaos/faults"
)

const (
	namespace = "chaos"
	replicas  = 2
	// restartAfter is how long a process that has ended stays away at least.
	restartAfter = 200 * time.Millisecond
	// mostRefusals is how often in a row a replica may give up before it serves: faults make it do so a few times.
	mostRefusals = 10
)

var podGroups = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}

// driver does what the script decides. Only the test's goroutine uses it, but for what it shares behind locks of their own:
// view and log.
type driver struct {
	t      *testing.T
	ctx    context.Context
	admin  *rest.Config
	dir    string
	client kubernetes.Interface
	groups dynamic.ResourceInterface
	view   *view
	log    *eventLog
	stats  *stats

	replicas []*replica
	// jobs are all that were created and are not gone, by name; gangs and pods alone.
	jobs map[string]*running
	// lateGroups are PodGroups to be created again, with the moment.
	lateGroups map[string]time.Duration
	machines   map[string]*machine
	started    time.Time
	// steps is the number of the last step.
	steps int
	// steady is true where no process is to end.
	steady bool
	// calm is true while no fault is to happen and nothing ends by itself.
	calm bool
}

// running is a job from its creation until nothing of it is left.
type running struct {
	*job
	// names are those of its pods: at first job.pods(), later with the names of those that were created in their place.
	names []string
	// named counts the members that got a name of their own since.
	named int
	// ended is true once the job is over: its pods go away, none is created again.
	ended bool
	// finish are the pods that are to succeed or fail, by name.
	finish map[string]v1.PodPhase
}

// now is the time since the start.
func (d *driver) now() time.Duration { return time.Since(d.started) }

// must ends the test on an answer that only a broken test gets.
func (d *driver) must(err error, what string, args ...any) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("%s: %v", fmt.Sprintf(what, args...), err)
	}
}

// mayBeGone is must for objects that the scheduler, or the API server, may have removed meanwhile.
func (d *driver) mayBeGone(err error, what string, args ...any) {
	d.t.Helper()
	if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		d.must(err, what, args...)
	}
}

func (d *driver) create(j *job) {
	r := &running{job: j, names: j.pods(), finish: map[string]v1.PodPhase{}}
	d.jobs[j.name] = r
	if j.size > 0 {
		d.createGroup(r)
		d.stats.gangs++
	}
	for _, name := range r.names {
		d.createPod(r, name)
	}
}

func (d *driver) createGroup(r *running) {
	group := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup",
		"metadata": map[string]any{"namespace": namespace, "name": r.name},
		"spec":     map[string]any{"minMember": int64(r.quorum)},
	}}
	if r.onLoss != "" {
		group.SetAnnotations(map[string]string{"gputopology.io/on-member-loss": r.onLoss})
	}
	_, err := d.groups.Create(d.ctx, group, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		d.must(err, "create PodGroup %s", r.name)
	}
}

func (d *driver) deleteGroup(name string) {
	d.mayBeGone(d.groups.Delete(d.ctx, name, metav1.DeleteOptions{}), "delete PodGroup %s", name)
}

func (d *driver) createPod(r *running, name string) {
	d.view.expect(name)
	_, err := d.client.CoreV1().Pods(namespace).Create(d.ctx, r.pod(name), metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		d.view.unexpect(name) // the one before is still being deleted; it is created again once that is over
		return
	}
	d.must(err, "create pod %s", name)
	d.stats.pods++
}

// deletePod deletes a pod as a user does; a nil grace is the pod's own.
func (d *driver) deletePod(name string, grace *int64) {
	err := d.client.CoreV1().Pods(namespace).Delete(d.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: grace})
	d.mayBeGone(err, "delete pod %s", name)
}

// recreate creates a member of a gang in the place of one that vanished: under its name, as a StatefulSet does, or, where no
// process is to end, under another one, as a Job does (see exitUpstream).
func (d *driver) recreate(r *running, i int) {
	delete(r.finish, r.names[i])
	if d.steady {
		r.named++
		r.names[i] = fmt.Sprintf("%s-%d-%d", r.name, i, r.named)
	}
	d.createPod(r, r.names[i])
}

// end has a job finish: what is bound succeeds or fails, the rest is deleted.
func (d *driver) end(j *job) {
	r := d.jobs[j.name]
	r.ended = true
	phase := v1.PodSucceeded
	if !j.succeeds {
		phase = v1.PodFailed
	}
	for _, name := range r.names {
		if pod := d.view.pod(name); pod != nil && pod.Spec.NodeName == "" {
			d.deletePod(name, nil)
		}
		r.finish[name] = phase
	}
}

func (d *driver) remove(j *job, force, groupFirst bool) {
	r := d.jobs[j.name]
	r.ended = true
	var grace *int64
	if force {
		grace = new(int64)
	}
	if j.size > 0 && groupFirst {
		d.deleteGroup(j.name)
	}
	for _, name := range r.names {
		d.deletePod(name, grace)
	}
}

func (d *driver) loseMember(j *job, i int, how string) {
	r := d.jobs[j.name]
	name := r.names[i]
	switch how {
	case "fails":
		r.finish[name] = v1.PodFailed
	case "succeeds":
		r.finish[name] = v1.PodSucceeded
	case "deleted by force":
		d.deletePod(name, new(int64))
	default:
		d.deletePod(name, nil)
	}
}

func (d *driver) replaceGroup(j *job, after time.Duration) {
	d.deleteGroup(j.name)
	d.lateGroups[j.name] = d.now() + after
	d.tendGroups()
}

// tendGroups creates the PodGroups that are due.
func (d *driver) tendGroups() {
	for _, name := range sortedKeys(d.lateGroups) {
		if d.lateGroups[name] > d.now() && !d.calm {
			continue
		}
		delete(d.lateGroups, name)
		if r := d.jobs[name]; r != nil && !r.ended {
			d.createGroup(r)
		}
	}
}

// The ways to damage a record. None of them makes another valid one.
var damages = []string{"removed", "garbage", "other version", "other node", "too few cards", "unknown cards"}

func (d *driver) damage(j *job, i int, how string) {
	name := d.jobs[j.name].names[i]
	pod := d.view.pod(name)
	if pod == nil || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return
	}
	text, ok := damaged(pod.Annotations[recordKey], how)
	if !ok {
		return
	}
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"annotations":{%q:%s}}}`, pod.UID, recordKey, text)
	_, err := d.client.CoreV1().Pods(namespace).Patch(d.ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	d.mayBeGone(err, "damage the record of pod %s", name)
	d.stats.damaged++
}

func (d *driver) applyNode(m *machine) {
	d.machines[m.name] = m
	nodes := d.client.CoreV1().Nodes()
	if m.away {
		d.mayBeGone(nodes.Delete(d.ctx, m.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}), "delete node %s", m.name)
		return
	}
	want := m.node()
	have, err := nodes.Get(d.ctx, m.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = nodes.Create(d.ctx, want, metav1.CreateOptions{})
		d.must(err, "create node %s", m.name)
		return
	}
	d.must(err, "read node %s", m.name)
	// A description and what the kubelet offers are two writes, as they are by an agent and a kubelet.
	have.Annotations = want.Annotations
	have, err = nodes.Update(d.ctx, have, metav1.UpdateOptions{})
	d.must(err, "update node %s", m.name)
	have.Status.Allocatable, have.Status.Capacity = want.Status.Allocatable, want.Status.Capacity
	_, err = nodes.UpdateStatus(d.ctx, have, metav1.UpdateOptions{})
	d.must(err, "update the status of node %s", m.name)
}

// target resolves the replica of a step; -1 is the leader, as far as anybody knows.
func (d *driver) target(replica int) *replica {
	if replica >= 0 {
		return d.replicas[replica]
	}
	for _, r := range d.replicas {
		if r.leading.Load() {
			return r
		}
	}
	return d.replicas[0]
}

func (d *driver) kill(replica int, after time.Duration) { d.killReplica(d.target(replica), after) }

func (d *driver) killReplica(r *replica, after time.Duration) {
	if !r.up() {
		return
	}
	d.log.add(sawProcess, []string{r.name}, "%s is killed", r.name)
	d.must(r.kill(), "kill %s", r.name)
	r.startAt = d.now() + after
	d.stats.kills++
}

func (d *driver) pause(replica int, duration time.Duration) {
	r := d.target(replica)
	if !r.up() || r.paused {
		return
	}
	d.log.add(sawProcess, []string{r.name}, "%s is stopped, leading %t", r.name, r.leading.Load())
	d.must(r.pause(), "stop %s", r.name)
	r.resumeAt = d.now() + duration
	d.stats.pauses++
}

func (d *driver) cutWatches(replica int, abrupt bool) {
	d.stats.watches += d.replicas[replica].proxy.CutWatches(abrupt)
}

// blind keeps a replica from hearing of pods: its watch is cut and the next ones fail, each after a longer wait than the one
// before.
func (d *driver) blind(r *replica, times int) {
	r.proxy.Arm(faults.Fault{Kind: faults.ServerError, Class: faults.Watch, Path: podsPath, Times: times})
	r.proxy.Arm(faults.Fault{Kind: faults.ServerError, Class: faults.List, Path: podsPath, Times: times})
	d.stats.watches += r.proxy.CutWatches(true)
}

// tendReplicas resumes, reaps and starts what is due.
func (d *driver) tendReplicas() {
	for _, r := range d.replicas {
		switch {
		case r.paused && (d.calm || d.now() >= r.resumeAt):
			d.log.add(sawProcess, []string{r.name}, "%s goes on", r.name)
			d.must(r.resume(), "resume %s", r.name)
		case r.process == nil && d.now() >= r.startAt:
			d.must(r.start(), "start %s", r.name)
			d.log.add(sawProcess, []string{r.name}, "%s is started, life %d", r.name, r.life)
		}
		if reason, ended := r.reap(); ended {
			d.log.add(sawProcess, []string{r.name}, "%s has ended: %s", r.name, reason.text)
			d.stats.exits[reason.kind]++
			if d.steady || reason.kind == exitCrash || reason.kind == exitNoStart && (d.calm || r.refusals == mostRefusals) {
				d.view.violate("process", []string{r.name}, "%s: %s", r.name, reason.text)
			}
			r.startAt = max(r.startAt, d.now()+restartAfter)
		}
	}
}

// perform does one step and then everything that is due until the next one.
func (d *driver) perform(s *step) {
	d.log.step(s)
	s.run(d)
	d.wait(s.pause)
}

// wait plays the cluster for a while.
func (d *driver) wait(pause time.Duration) {
	until := d.now() + pause
	for first := true; first || d.now() < until; first = false {
		d.tend()
		timer := time.NewTimer(min(max(until-d.now(), 0), 20*time.Millisecond))
		select {
		case <-timer.C:
		case <-d.ctx.Done():
			timer.Stop()
			d.t.Fatal(context.Cause(d.ctx))
		}
	}
}

// waitForBind plays the cluster until a pod is bound, or seconds have passed.
func (d *driver) waitForBind(name string) {
	for range 30 {
		if pod := d.view.pod(name); pod != nil && pod.Spec.NodeName != "" {
			return
		}
		d.wait(100 * time.Millisecond)
	}
}

// tend does what is due now.
func (d *driver) tend() {
	d.tendReplicas()
	d.tendGroups()
	d.playKubelet()
	d.playControllers()
	if bad := d.view.violations(); len(bad) > 0 {
		d.report(bad)
		d.t.FailNow()
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
