package coscheduling

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	kit "github.com/gputopology/gpu-topology-scheduler/pkg/testkit"
)

func onPort(port int32) kit.PodOption {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, v1.ContainerPort{ContainerPort: port, HostPort: port})
	}
}

// TestHostPortsArePlannedApart: members that take a port of their node get a node each, and none where the port is taken.
func TestHostPortsArePlannedApart(t *testing.T) {
	nodes := []*v1.Node{kit.Node("n1", kit.N8s("n1")), kit.Node("n2", kit.N8s("n2")), kit.Node("n3", kit.N8s("n3"))}
	pods := members("a", 2, kit.GPUs(1), onPort(29500))
	f := newFixture(t, objects(nodes, pods)...)
	taken, err := framework.NewPodInfo(kit.Pod("ns", "x", kit.UID("x"), onPort(29500)))
	if err != nil {
		t.Fatal(err)
	}
	f.nodes[0].AddPodInfo(taken)
	f.seesGroup("a", 2)
	if _, _, status := f.prefilter(t, pods[0]); !status.IsSuccess() {
		t.Fatal(status)
	}
	used := map[ledger.NodeName]bool{}
	for _, pod := range pods {
		used[f.book.Planned(ledger.PodUID(pod.UID)).Node] = true
	}
	if !used["n2"] || !used["n3"] {
		t.Errorf("nodes %v, want n2 and n3", used)
	}
	more := members("b", 3, kit.GPUs(1), onPort(29501))
	more[2].Spec.Containers[0].Ports = nil
	g := newFixture(t, objects(nodes[:1], more)...)
	g.seesGroup("b", 3)
	if _, _, status := g.prefilter(t, more[0]); status.IsSuccess() || !strings.Contains(status.Message(), "host port 29501/TCP") {
		t.Errorf("two members on one node: %v", status)
	}
}

// TestGangSaysWhatAnotherPluginSaid: a first member that is refused before our PreFilter tells its gang why.
func TestGangSaysWhatAnotherPluginSaid(t *testing.T) {
	pods := members("a", 2, kit.GPUs(1))
	f := newFixture(t, objects([]*v1.Node{kit.Node("n1", kit.N8s("n1"))}, pods)...)
	f.seesGroup("a", 2)
	for _, pod := range pods {
		if status := f.PreEnqueue(f.ctx, pod); !status.IsSuccess() {
			t.Fatal(status)
		}
	}
	statuses := framework.NewDefaultNodeToStatus()
	statuses.SetAbsentNodesStatus(fwk.NewStatus(fwk.UnschedulableAndUnresolvable, `persistentvolumeclaim "data" not found`))
	f.PostFilter(f.ctx, framework.NewCycleState(), pods[0], statuses)
	if a := f.book.Admit(pods[1]); !strings.Contains(a.Reason, `pod a-0 was refused: persistentvolumeclaim "data" not found`) {
		t.Errorf("the gang says %q", a.Reason)
	}
}
