package engine

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

// TestCaseB086TakenOverPodsStayHeld: a new leader has read a bound pod from the API server, and its own watch hangs. Filter and
// sweeps, which look for ends of pods in the informer's store, give its cards to nobody; nor is it taken for gone when the
// watch goes on.
func TestCaseB086TakenOverPodsStayHeld(t *testing.T) {
	s := newSwept(t, nil)
	pod := kit.Pod("t", "late", kit.UID("late"), kit.GPUs(3), kit.OnNode("n1"), recordOf(t, "n1", 3))
	pod.ResourceVersion = "12"
	client, ok := s.bench.handle.ClientSet().(*fake.Clientset)
	if !ok {
		t.Fatalf("client is a %T", s.bench.handle.ClientSet())
	}
	client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &v1.PodList{Items: []v1.Pod{*pod.DeepCopy()}}, nil
	})
	s.pods.Bookmark("10")
	s.inSync.Store(true)
	if err := s.TakeOver(s.bench.ctx, s.bench.handle); err != nil {
		t.Fatal(err)
	}
	s.free(5)
	s.Observer().CatchUp("n1", 1)
	s.free(5)
	for range 3 {
		s.same("the watch hangs", s.sweep())
	}
	s.free(5)
	s.put(s.pods, pod)
	s.Observer().PodSeen(pod)
	s.Observer().CatchUp("n1", 2)
	s.same("the watch goes on", s.sweep())
	s.free(5)
	s.remove(s.pods, pod)
	s.Observer().CatchUp("n1", 3)
	s.free(8)
}
