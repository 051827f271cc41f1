package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultbinder"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedmetrics "k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/gang"
	"github.com/gputopology/gpu-topology-scheduler/pkg/metrics"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/coscheduling"
	"github.com/gputopology/gpu-topology-scheduler/pkg/plugins/gputopology"
	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup"
	"github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

// points is the framework with both plugins in the order that ships, on an API server that is a fake: what each extension
// point does is seen one by one.
type points struct {
	framework.Framework
	ctx    context.Context
	engine *engine.Engine
	client *fake.Clientset
}

// idle is a scheduling queue that nobody looks at.
type idle struct{}

func (idle) Activate(klog.Logger, map[string]*v1.Pod)                      {}
func (idle) AddNominatedPod(klog.Logger, fwk.PodInfo, *fwk.NominatingInfo) {}
func (idle) DeleteNominatedPodIfExists(*v1.Pod)                            {}
func (idle) UpdateNominatedPod(klog.Logger, *v1.Pod, fwk.PodInfo)          {}
func (idle) NominatedPodsForNode(string) []fwk.PodInfo                     { return nil }

func startPoints(t *testing.T, o engine.Options, recorder events.EventRecorderLogger, node *v1.Node, pods ...*v1.Pod) *points {
	t.Helper()
	return startPointsOn(t, func(*fake.Clientset) {}, o, recorder, node, pods...)
}

// startPointsOn has the client prepared before informers read from it.
func startPointsOn(t *testing.T, prepare func(*fake.Clientset), o engine.Options, recorder events.EventRecorderLogger, node *v1.Node, pods ...*v1.Pod) *points {
	t.Helper()
	schedmetrics.Register()
	_, ctx := ktesting.NewTestContext(t)
	ctx, cancel := context.WithCancel(ctx)
	objects := []runtime.Object{node}
	for _, p := range pods {
		objects = append(objects, p)
	}
	client := fake.NewClientset(objects...)
	prepare(client)
	factory := informers.NewSharedInformerFactory(client, 0)
	noGroups := httptest.NewServer(http.NotFoundHandler())
	shared := engine.New(o)
	names := []config.Plugin{{Name: gputopology.Name}, {Name: coscheduling.Name}}
	fw, err := frameworkruntime.NewFramework(ctx, frameworkruntime.Registry{
		gputopology.Name: gputopology.New(shared), coscheduling.Name: coscheduling.New(shared), defaultbinder.Name: defaultbinder.New,
	}, &config.KubeSchedulerProfile{
		SchedulerName: testkit.SchedulerName,
		Plugins: &config.Plugins{
			MultiPoint: config.PluginSet{Enabled: names},
			QueueSort:  config.PluginSet{Enabled: names[1:], Disabled: []config.Plugin{{Name: "*"}}},
			Bind:       config.PluginSet{Enabled: []config.Plugin{names[0], {Name: defaultbinder.Name}}, Disabled: []config.Plugin{{Name: "*"}}},
		},
	}, frameworkruntime.WithClientSet(client), frameworkruntime.WithInformerFactory(factory), frameworkruntime.WithKubeConfig(&rest.Config{Host: noGroups.URL}),
		frameworkruntime.WithPodActivator(idle{}), frameworkruntime.WithPodNominator(idle{}),
		frameworkruntime.WithWaitingPods(frameworkruntime.NewWaitingPodsMap()),
		frameworkruntime.WithEventRecorder(recorder), frameworkruntime.WithSnapshotSharedLister(schedcache.NewSnapshot(nil, []*v1.Node{node})))
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	p := &points{Framework: fw, ctx: ctx, engine: shared, client: client}
	t.Cleanup(func() {
		cancel()
		if err := fw.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		factory.Shutdown()
		noGroups.Close()
	})
	p.until(t, "in sync", func() bool { return shared.HasSynced() && shared.GangsSynced() })
	return p
}

func (p *points) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(p.ctx, time.Millisecond, patience, true, func(context.Context) (bool, error) { return ok(), nil })
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// reserve runs a pod's own cycle up to Permit, and leaves it waiting there where it has to.
func (p *points) reserve(t *testing.T, pod *v1.Pod, node string) *framework.CycleState {
	t.Helper()
	state := framework.NewCycleState()
	if _, status, _ := p.RunPreFilterPlugins(p.ctx, state, pod); !status.IsSuccess() {
		t.Fatalf("PreFilter of pod %s: %v", pod.Name, status)
	}
	if status := p.RunReservePluginsReserve(p.ctx, state, pod, node); !status.IsSuccess() {
		t.Fatalf("Reserve of pod %s: %v", pod.Name, status)
	}
	timeouts, status := p.RunPermitPlugins(p.ctx, state, pod, node)
	switch {
	case status.IsWait():
		p.AddWaitingPod(pod, timeouts)
	case !status.IsSuccess():
		t.Fatalf("Permit of pod %s: %v", pod.Name, status)
	}
	return state
}

// gangOf is n pods of one card each of a group that has them all as its quorum.
func gangOf(group string, n int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		name := fmt.Sprintf("%s-%d", group, i)
		pods[i] = testkit.Pod(namespace, name, testkit.UID("uid-"+name), testkit.GPUs(1))
		pods[i].Labels = map[string]string{v1alpha1.PodGroupLabel: group}
	}
	return pods
}

func (p *points) seesGroup(name string, n int) {
	p.engine.Gangs().GroupSeen(podgroup.Group{
		UID: gang.GroupUID("uid-" + name), Namespace: namespace, Name: name, Created: time.Unix(1, 0), Spec: gang.Spec{MinMember: n},
	})
}

// spansInMemory keeps its spans when it is shut down.
type spansInMemory struct{ *tracetest.InMemoryExporter }

func (spansInMemory) Shutdown(context.Context) error { return nil }

// TestSpansOfAnAttempt: a member that plans its gang, waits at Permit and fails to be bound has the five spans in one trace,
// below its plan; its sibling has a trace of its own.
func TestSpansOfAnAttempt(t *testing.T) {
	memory := tracetest.NewInMemoryExporter()
	pods := gangOf("g", 2)
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := a.(clienttesting.CreateAction); ok && a.GetSubresource() == "binding" {
			if b, ok := create.GetObject().(*v1.Binding); ok && b.Name == pods[0].Name {
				return true, nil, apierrors.NewForbidden(v1.Resource("pods"), b.Name, errors.New("quota"))
			}
			return true, nil, nil
		}
		return false, nil, nil
	}
	p := startPointsOn(t, func(c *fake.Clientset) { c.PrependReactor("create", "pods", refuse) },
		engine.Options{Tracer: tracing.New(spansInMemory{memory}, 64)}, nil, testkit.Node("n1", testkit.N8s("n1")), pods...)
	before := metricValue(t, metrics.RollbackBind, metrics.StageBinding)
	p.seesGroup("g", 2)
	first := p.reserve(t, pods[0], "n1") // plans, and waits
	second := p.reserve(t, pods[1], "n1")
	if status := p.RunBindPlugins(p.ctx, second, pods[1], "n1"); !status.IsSuccess() {
		t.Fatalf("Bind of the sibling: %v", status)
	}
	p.RunPostBindPlugins(p.ctx, second, pods[1], "n1")
	if status := p.WaitOnPermit(p.ctx, pods[0]); !status.IsSuccess() {
		t.Fatalf("wait at Permit: %v", status)
	}
	if status := p.RunBindPlugins(p.ctx, first, pods[0], "n1"); status.IsSuccess() {
		t.Fatal("Bind was to fail")
	}
	for range 2 {
		p.RunReservePluginsUnreserve(p.ctx, first, pods[0], "n1")
	}
	if err := p.engine.Close(); err != nil {
		t.Fatal(err)
	}
	if got := metricValue(t, metrics.RollbackBind, metrics.StageBinding) - before; got != 1 {
		t.Errorf("%v rollbacks are counted, want 1", got)
	}
	type line struct{ Pod, Span, Parent, Outcome string }
	name := map[string]string{}
	for _, s := range memory.GetSpans() {
		name[s.SpanContext.SpanID().String()] = s.Name
	}
	var got []line
	traces := map[string]map[string]bool{}
	for _, s := range memory.GetSpans() {
		attributes := map[string]string{}
		for _, a := range s.Attributes {
			attributes[string(a.Key)] = a.Value.String()
		}
		pod := attributes["k8s.pod.name"]
		got = append(got, line{pod, s.Name, name[s.Parent.SpanID().String()], attributes["gputopology.outcome"]})
		if traces[pod] == nil {
			traces[pod] = map[string]bool{}
		}
		traces[pod][s.SpanContext.TraceID().String()] = true
		if s.Name != tracing.SpanPlan && s.Name != tracing.SpanPermitWait && (attributes["gputopology.cards"] == "" || attributes["k8s.node.name"] != "n1") {
			t.Errorf("span %s of pod %s has attributes %v", s.Name, pod, attributes)
		}
		if s.Name != tracing.SpanPermitWait && (attributes["gputopology.plan"] != "uid-g-1" || attributes["gputopology.gang"] != namespace+"/g") {
			t.Errorf("span %s of pod %s has attributes %v", s.Name, pod, attributes)
		}
	}
	want := []line{
		{"g-0", tracing.SpanPlan, "", metrics.PlanMade},
		{"g-0", tracing.SpanReserve, tracing.SpanPlan, tracing.OutcomeSuccess},
		{"g-1", tracing.SpanReserve, "", tracing.OutcomeSuccess},
		{"g-1", tracing.SpanBind, tracing.SpanReserve, tracing.OutcomeSuccess},
		{"g-0", tracing.SpanPermitWait, tracing.SpanPlan, tracing.OutcomeSuccess},
		{"g-0", tracing.SpanBind, tracing.SpanPlan, tracing.OutcomeFailed},
		{"g-0", tracing.SpanRollback, tracing.SpanPlan, metrics.RollbackBind},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("spans (-want +got):\n%s", d)
	}
	if len(traces["g-0"]) != 1 || len(traces["g-1"]) != 1 {
		t.Errorf("the pods have %d and %d traces, want one each", len(traces["g-0"]), len(traces["g-1"]))
	}
}

func metricValue(t *testing.T, labels ...string) float64 {
	t.Helper()
	metrics.Register()
	n, err := testutil.GetCounterMetricValue(metrics.Rollbacks.WithLabelValues(labels...))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRollbacksOfAGang: a gang that is given up while members wait and another one is planned counts each by how far it came.
func TestRollbacksOfAGang(t *testing.T) {
	pods := gangOf("g", 3)
	p := startPoints(t, engine.Options{}, nil, testkit.Node("n1", testkit.N8s("n1")), pods...)
	waiting, planned := metricValue(t, metrics.RollbackGang, metrics.StageWaiting), metricValue(t, metrics.RollbackGang, metrics.StagePlanned)
	p.seesGroup("g", 3)
	states := []*framework.CycleState{p.reserve(t, pods[0], "n1"), p.reserve(t, pods[1], "n1")}
	p.engine.Gangs().GroupGone(namespace, "g", "uid-g")
	for i, state := range states {
		if status := p.WaitOnPermit(p.ctx, pods[i]); status.IsSuccess() {
			t.Fatalf("pod %s was let go", pods[i].Name)
		}
		p.RunReservePluginsUnreserve(p.ctx, state, pods[i], "n1")
	}
	if got := metricValue(t, metrics.RollbackGang, metrics.StagePlanned) - planned; got != 1 {
		t.Errorf("%v planned members are counted, want 1", got)
	}
	if got := metricValue(t, metrics.RollbackGang, metrics.StageWaiting) - waiting; got != 2 {
		t.Errorf("%v waiting members are counted, want 2", got)
	}
	if free := p.engine.Ledger().Node("n1").Free.Len(); free != 8 {
		t.Errorf("%d cards are free, want 8", free)
	}
}

// hanging is an event recorder whose API server does not answer.
type hanging struct{ release chan struct{} }

func (h *hanging) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
	<-h.release
}

func (h *hanging) WithLogger(klog.Logger) events.EventRecorderLogger { return h }

// TestRollbackDoesNotWaitForEvents: while the recorder hangs and the queue of reports is full, everything that reports, and
// every rollback, goes on; what is too much is counted. Nothing here ends if it waits for the recorder.
func TestRollbackDoesNotWaitForEvents(t *testing.T) {
	recorder := &hanging{release: make(chan struct{})}
	pods := make([]*v1.Pod, 8)
	for i := range pods {
		name := fmt.Sprintf("p-%d", i)
		pods[i] = testkit.Pod(namespace, name, testkit.UID("uid-"+name), testkit.GPUs(1))
	}
	p := startPoints(t, engine.Options{}, recorder, testkit.Node("n1", testkit.N8s("n1")), pods...)
	var states []*framework.CycleState
	for _, pod := range pods {
		states = append(states, p.reserve(t, pod, "n1"))
	}
	if free := p.engine.Ledger().Node("n1").Free.Len(); free != 0 {
		t.Fatalf("%d cards are free, want none", free)
	}
	before, err := testutil.GetCounterMetricValue(metrics.ReportsDropped)
	if err != nil {
		t.Fatal(err)
	}
	const reports = 20000 // several times what the queue holds
	var running sync.WaitGroup
	for i, pod := range pods {
		running.Go(func() {
			for range reports / len(pods) {
				p.engine.Report(pod, "Reason", "Action", "detail")
			}
			p.RunReservePluginsUnreserve(p.ctx, states[i], pod, "n1")
		})
	}
	running.Wait()
	if free := p.engine.Ledger().Node("n1").Free.Len(); free != 8 {
		t.Errorf("%d cards are free after the rollbacks, want 8", free)
	}
	after, err := testutil.GetCounterMetricValue(metrics.ReportsDropped)
	if err != nil {
		t.Fatal(err)
	}
	if dropped := after - before; dropped <= 0 || dropped >= reports {
		t.Errorf("%v of %d reports were dropped and counted, want some", dropped, reports)
	}
	close(recorder.release)
}
