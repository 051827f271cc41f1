package integration

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

func priorityClass(name string, value int32) *schedulingv1.PriorityClass {
	return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
}

// TestCaseB041CommittedBindWithLostAnswer: the server commits the bind and the answer is lost. The pod keeps its cards
// throughout, is charged once, and nobody else gets one of them.
func TestCaseB041CommittedBindWithLostAnswer(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	api := &faultyAPI{lose: isBind("p")}
	r := startReplica(t, c.startFaultyAPI(t, api), replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(8)))
	c.waitBound(t, "p")
	c.createPods(t, kit.Pod(namespace, "q", kit.GPUs(1)))
	c.waitRefused(t, "q")
	c.check(t, r)
	if api.count() == 0 {
		t.Fatal("no answer was lost: the test shows nothing")
	}
	api.set(nil, nil)
	c.deletePods(t, "p")
	c.waitBound(t, "q")
	c.check(t, r)
}

// TestCaseB041UncommittedBind: the connection breaks before the server sees the bind. It is sent again.
func TestCaseB041UncommittedBind(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	var once sync.Once
	first := func(r *http.Request) (picked bool) {
		if isBind("p")(r) {
			once.Do(func() { picked = true })
		}
		return picked
	}
	api := &faultyAPI{drop: first}
	r := startReplica(t, c.startFaultyAPI(t, api), replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(8)))
	c.waitBound(t, "p")
	c.check(t, r)
	if api.count() != 1 {
		t.Fatalf("%d requests were dropped, want 1", api.count())
	}
}

// TestBindOfUnknownOutcome: neither the bind nor a read of the pod gets through. The cards stay held, whatever Unreserve
// says; once the pod can be read and no late commit is possible any more, they are free and the pod is tried again.
func TestBindOfUnknownOutcome(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	fake := testingclock.NewFakeClock(time.Now())
	api := &faultyAPI{drop: func(r *http.Request) bool { return isBind("p")(r) || isRead("p")(r) }}
	r := startReplica(t, c.startFaultyAPI(t, api), replicaOptions{clock: fake})
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(8)))
	uid := ledger.PodUID(c.pod(t, "p").UID)
	eventually(t, "outcome unknown", r.hasStage(uid, ledger.StageUnknown))
	c.createPods(t, kit.Pod(namespace, "q", kit.GPUs(8)))
	c.waitRefused(t, "q")

	api.set(nil, nil)
	fake.Step(2 * time.Second)
	c.waitRefused(t, "q") // p is not bound, but its bind might still be on its way
	if _, stage, ok := r.engine.Ledger().Holding(uid); !ok || stage != ledger.StageUnknown {
		t.Fatalf("p holds %v, stage %v: given back before a late commit is impossible", ok, stage)
	}
	fake.Step(2 * time.Minute)
	c.waitBoundCount(t, 1)
	c.check(t, r)
}

// TestPodDeletedInFlight: the pod is deleted while its bind is under way. Its cards are free at once, and the late bind
// changes nothing.
func TestPodDeletedInFlight(t *testing.T) {
	c := startCluster(t)
	c.createNodes(t, kit.Node("n1", kit.N8s("n1")))
	arrived, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	hold := func(r *http.Request) bool {
		if isBind("p")(r) {
			once.Do(func() { close(arrived); <-proceed })
		}
		return false
	}
	api := &faultyAPI{drop: hold}
	r := startReplica(t, c.startFaultyAPI(t, api), replicaOptions{})
	c.createPods(t, kit.Pod(namespace, "p", kit.GPUs(8)))
	<-arrived
	c.deletePods(t, "p")
	c.createPods(t, kit.Pod(namespace, "q", kit.GPUs(8)))
	c.waitBound(t, "q")
	close(proceed)
	c.check(t, r)
}
