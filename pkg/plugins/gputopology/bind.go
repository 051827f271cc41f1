package gputopology

import (
	"context"
	"fmt"
	"strconv"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/engine"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/tracing"
)

// Bind writes the node and the allocation record in one Binding: the API server merges a Binding's annotations into the
// pod in the transaction that sets spec.nodeName. Pods without a reservation are left to the next bind plugin.
func (p *Plugin) Bind(ctx context.Context, state fwk.CycleState, pod *v1.Pod, nodeName string) *fwk.Status {
	reserved := Reservation(state)
	if reserved == nil {
		if requestOf(state) != nil {
			return fwk.AsStatus(fmt.Errorf("pod %s/%s asks for GPUs but has no reservation to bind", pod.Namespace, pod.Name))
		}
		return fwk.NewStatus(fwk.Skip)
	}
	attempt := engine.AttemptOf(state)
	attempt.Binding(pod, nodeName)
	if string(reserved.NodeName) != nodeName {
		return fwk.AsStatus(fmt.Errorf("pod %s/%s reserved cards on node %s and is to be bound to node %s", pod.Namespace, pod.Name, reserved.NodeName, nodeName))
	}
	annotations, err := record.Annotations(pod, nodeName, reserved.Choice, record.Options{
		Dialects: p.args.RecordDialects,
		Now:      p.engine.Clock().Now(),
		Topology: reserved.Topology,
		Gang:     reserved.Gang,
		Rank:     reserved.Rank,
		Plan:     reserved.Plan,
		Recent:   p.engine.Recent(),
	})
	if err != nil {
		return fwk.AsStatus(fmt.Errorf("allocation record: %w", err))
	}
	if _, own := pod.Annotations[v1alpha1.RankAnnotation]; reserved.Rank != nil && !own {
		annotations[v1alpha1.RankAnnotation] = strconv.Itoa(int(*reserved.Rank)) // for the downward API
	}
	span := p.engine.Span(ctx, attempt, tracing.SpanBind)
	err = p.engine.Bind(ctx, p.handle, &v1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Annotations: annotations},
		Target:     v1.ObjectReference{Kind: "Node", Name: nodeName},
	}, reserved.Choice.Cards)
	if span.On() {
		span.End(tracing.Details{
			Namespace: pod.Namespace, Pod: pod.Name, Node: nodeName, Gang: reserved.Gang, Plan: reserved.Plan, Cards: reserved.Choice.Cards,
		}.Because(err))
	}
	if err != nil {
		return fwk.AsStatus(err)
	}
	attempt.Bound()
	klog.FromContext(ctx).V(4).Info("Bound pod to cards", "pod", klog.KObj(pod), "node", nodeName, "cards", len(reserved.Choice.Cards))
	return nil
}
