package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/gputopology/gpu-topology-scheduler/test/chaos/checker"
)

// recordKey is spelled out here as in package checker.
const recordKey = "gputopology.io/allocation"

// view is the cluster as watches of the API server itself show it, judged event by event. It is safe for concurrent use.
type view struct {
	client  kubernetes.Interface
	log     *eventLog
	started time.Time

	mu   sync.Mutex
	laws *checker.Laws
	pods map[string]*seenPod
	// awaited are pods that were created and not seen yet.
	awaited map[string]bool
	bad     []checker.Violation
	binds   int
}

// seenPod is a pod and what the kubelet needs to know of it.
type seenPod struct {
	pod *v1.Pod
	// since is when it came to where it is: bound, ended, being deleted, without a node.
	since time.Duration
	stage string
	// acted is the version that the kubelet has done something about.
	acted string
}

func newView(client kubernetes.Interface, log *eventLog, started time.Time) *view {
	return &view{client: client, log: log, started: started, laws: checker.NewLaws(), pods: map[string]*seenPod{}, awaited: map[string]bool{}}
}

// ask has the laws know what schedulers have heard of nodes (checker.Laws).
func (v *view) ask(heard func(from, to time.Duration) bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.laws.Heard = heard
}

func (v *view) now() time.Duration { return time.Since(v.started) }

// follow lists and watches until ctx ends. seen and gone get the objects in the order of their versions.
func follow[L runtime.Object, T runtime.Object](ctx context.Context, list func(context.Context, metav1.ListOptions) (L, error),
	open func(context.Context, metav1.ListOptions) (watch.Interface, error), all func(L) []T, replace func([]T), seen, gone func(T)) error {
	for ctx.Err() == nil {
		listed, err := list(ctx, metav1.ListOptions{})
		if err != nil {
			return ended(ctx, err)
		}
		meta, ok := any(listed).(metav1.ListInterface)
		if !ok {
			return fmt.Errorf("%T is no list", listed)
		}
		replace(all(listed))
		w, err := open(ctx, metav1.ListOptions{ResourceVersion: meta.GetResourceVersion()})
		if err != nil {
			return ended(ctx, err)
		}
		for event := range w.ResultChan() {
			object, ok := event.Object.(T)
			switch {
			case !ok: // an error, such as a version that is too old: list again
				w.Stop()
			case event.Type == watch.Deleted:
				gone(object)
			case event.Type == watch.Added, event.Type == watch.Modified:
				seen(object)
			default:
			}
		}
		w.Stop()
	}
	return nil
}

func ended(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return nil
}

func (v *view) followPods(ctx context.Context) error {
	pods := v.client.CoreV1().Pods(metav1.NamespaceAll)
	all := func(l *v1.PodList) []*v1.Pod { return pointers(l.Items) }
	return follow(ctx, pods.List, pods.Watch, all, v.replacePods, v.seePod, v.gonePod)
}

func (v *view) followNodes(ctx context.Context) error {
	nodes := v.client.CoreV1().Nodes()
	all := func(l *v1.NodeList) []*v1.Node { return pointers(l.Items) }
	// The nodes are few and their watch never lags by more than it takes the test to notice: a list finds none to remove.
	replace := func(list []*v1.Node) {
		for _, n := range list {
			v.seeNode(n)
		}
	}
	return follow(ctx, nodes.List, nodes.Watch, all, replace, v.seeNode, v.goneNode)
}

func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

func (v *view) replacePods(list []*v1.Pod) {
	listed := map[string]bool{}
	for _, p := range list {
		listed[string(p.UID)] = true
	}
	v.mu.Lock()
	var lost []*v1.Pod
	for _, s := range v.pods {
		if !listed[string(s.pod.UID)] {
			lost = append(lost, s.pod)
		}
	}
	v.mu.Unlock()
	for _, p := range lost {
		v.gonePod(p)
	}
	for _, p := range list {
		v.seePod(p)
	}
}

// stageOf is where a pod stands, for the kubelet.
func stageOf(pod *v1.Pod) string {
	switch {
	case pod.DeletionTimestamp != nil:
		return "stopping"
	case terminal(pod):
		return "ended"
	case pod.Spec.NodeName != "":
		return "bound"
	}
	return "pending"
}

func (v *view) seePod(pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := pod.Namespace + "/" + pod.Name
	was := v.pods[key]
	delete(v.awaited, key)
	is := &seenPod{pod: pod, since: v.now(), stage: stageOf(pod)}
	if was != nil && was.pod.UID == pod.UID {
		is.acted = was.acted
		if was.stage == is.stage {
			is.since = was.since
		}
	}
	v.pods[key] = is
	p := checker.FromPod(pod)
	if pod.Spec.NodeName != "" && (was == nil || was.pod.UID != pod.UID || was.pod.Spec.NodeName == "") {
		v.binds++
	}
	if was == nil || was.stage != is.stage || was.pod.UID != pod.UID {
		about := []string{key}
		if pod.Spec.NodeName != "" {
			about = append(about, pod.Spec.NodeName)
		}
		v.log.add(sawPod, append(about, cardsIn(p.Record)...), "%s %s is %s%s", key, short(pod), is.stage, onNode(pod, p.Record))
	} else if was.pod.Annotations[recordKey] != p.Record {
		v.log.add(sawPod, []string{key, pod.Spec.NodeName}, "%s %s has another record: %.200s", key, short(pod), p.Record)
	}
	v.bad = append(v.bad, v.laws.SeePod(p, v.now())...)
}

func short(pod *v1.Pod) string { return fmt.Sprintf("(%.8s)", pod.UID) }

func onNode(pod *v1.Pod, record string) string {
	if pod.Spec.NodeName == "" {
		return ""
	}
	return " on " + pod.Spec.NodeName + " with " + strings.Join(cardsIn(record), " ")
}

func (v *view) gonePod(pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := pod.Namespace + "/" + pod.Name
	if was := v.pods[key]; was != nil && was.pod.UID == pod.UID {
		delete(v.pods, key)
	}
	v.laws.GonePod(string(pod.UID))
	v.log.add(sawPod, []string{key, pod.Spec.NodeName}, "%s %s is gone%s", key, short(pod), onNode(pod, ""))
}

func (v *view) seeNode(node *v1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	n, err := checker.FromNode(node)
	if err != nil {
		v.bad = append(v.bad, checker.Violation{Law: "test", Text: err.Error(), About: []string{node.Name}})
		return
	}
	var cards []string
	for _, c := range n.Cards {
		text := c.UUID
		if !c.Healthy {
			text += " (sick)"
		}
		cards = append(cards, text)
	}
	v.log.add(sawNode, []string{node.Name}, "node %s (%.8s) offers %d and lists %s", node.Name, node.UID, n.Offered, strings.Join(cards, " "))
	v.laws.SeeNode(n, v.now())
}

func (v *view) goneNode(node *v1.Node) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.log.add(sawNode, []string{node.Name}, "node %s (%.8s) is gone", node.Name, node.UID)
	v.laws.GoneNode(node.Name, v.now())
}

// violations returns what was violated so far.
func (v *view) violations() []checker.Violation {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.bad
}

// violate adds a violation that no law of the checker covers.
func (v *view) violate(law string, about []string, format string, args ...any) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.bad = append(v.bad, checker.Violation{Law: law, Text: fmt.Sprintf(format, args...), About: about})
}

// pod returns a pod of the test's namespace, nil if it is not there.
func (v *view) pod(name string) *v1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.pods[namespace+"/"+name]; s != nil {
		return s.pod
	}
	return nil
}

// count returns the number of pods that exist.
func (v *view) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.pods)
}

// podsByName returns the pods about which the kubelet has done nothing since they last changed.
func (v *view) podsByName() []seenPod {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []seenPod
	for _, name := range sortedKeys(v.pods) {
		if s := v.pods[name]; s.acted != s.pod.ResourceVersion {
			out = append(out, *s)
		}
	}
	return out
}

func (v *view) acted(pod *v1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.pods[pod.Namespace+"/"+pod.Name]; s != nil && s.pod.UID == pod.UID {
		s.acted = pod.ResourceVersion
	}
}

func (v *view) expect(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.awaited[namespace+"/"+name] = true
}

func (v *view) unexpect(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.awaited, namespace+"/"+name)
}

func (v *view) expected(name string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.awaited[namespace+"/"+name]
}

// judge calls AtRest with the laws as they are, if they have seen exactly the pods of the moment.
func (v *view) judge(m checker.Moment, versions map[string]string, states []checker.State) (bad []checker.Violation, same bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(versions) != len(v.pods) {
		return nil, false
	}
	for _, s := range v.pods {
		if versions[string(s.pod.UID)] != s.pod.ResourceVersion {
			return nil, false
		}
	}
	return checker.AtRest(v.laws, m, states), true
}

// undecided returns the pods whose cards are not certain: their record is damaged, or they hold a card that their node does
// not list.
func (v *view) undecided(listed map[string]map[string]bool) []*v1.Pod {
	v.mu.Lock()
	defer v.mu.Unlock()
	var out []*v1.Pod
	for _, name := range sortedKeys(v.pods) {
		pod := v.pods[name].pod
		uid := string(pod.UID)
		uncertain := v.laws.Damaged(uid)
		for _, c := range v.laws.Cards(uid) {
			uncertain = uncertain || !listed[pod.Spec.NodeName][c.UUID]
		}
		if uncertain && pod.Spec.NodeName != "" {
			out = append(out, pod)
		}
	}
	return out
}
