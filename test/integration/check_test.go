package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/gputopology/v1alpha1"
	"github.com/gputopology/gpu-topology-scheduler/pkg/ledger"
	"github.com/gputopology/gpu-topology-scheduler/pkg/record"
	"github.com/gputopology/gpu-topology-scheduler/pkg/request"
)

// check waits until the ledger equals one rebuilt from the live pods, its invariants hold, and no card is sold twice.
func (c *cluster) check(t *testing.T, r *replica) {
	t.Helper()
	eventually(t, "ledger equals the pods", func(ctx context.Context) (bool, error) {
		if err := r.engine.Ledger().Check(); err != nil {
			return false, err
		}
		pods, err := c.pods(ctx)
		if err != nil {
			return false, err
		}
		if err := soldTwice(pods); err != nil {
			return false, err
		}
		want, err := holdings(pods)
		if err != nil {
			return false, err
		}
		have := map[ledger.PodUID]ledger.Holding{}
		for _, uid := range r.engine.Ledger().Pods() {
			if h, _, ok := r.engine.Ledger().Holding(uid); ok {
				have[uid] = h
			}
		}
		if d := cmp.Diff(want, have); d != "" {
			return false, errors.New(d)
		}
		return true, nil
	})
}

// holdings is what the live pods hold, read from nothing but the API.
func holdings(pods []v1.Pod) (map[ledger.PodUID]ledger.Holding, error) {
	out := map[ledger.PodUID]ledger.Holding{}
	for i := range pods {
		p := &pods[i]
		if p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		if _, has := p.Annotations[v1alpha1.AllocationAnnotation]; has {
			h, err := record.ParseHolding(p)
			if err != nil {
				return nil, fmt.Errorf("pod %s: %w", p.Name, err)
			}
			out[h.UID] = h
			continue
		}
		if cards, instances := request.FromPodForeign(p); cards > 0 || len(instances) > 0 {
			h := record.ForeignHolding(p, cards, instances)
			out[h.UID] = h
		}
	}
	return out, nil
}

// soldTwice looks only at the records and finds a card of which two live pods hold more than there is.
func soldTwice(pods []v1.Pod) error {
	type card struct {
		node  string
		index int
	}
	type use struct {
		mask  uint64
		milli int32
		pod   string
	}
	used := map[card][]use{}
	for i := range pods {
		p := &pods[i]
		text, has := p.Annotations[v1alpha1.AllocationAnnotation]
		if !has || p.Spec.NodeName == "" || p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
			continue
		}
		parsed, err := v1alpha1.ParseRecord(text)
		if err != nil {
			return fmt.Errorf("record of pod %s: %w", p.Name, err)
		}
		for _, c := range parsed.Cards {
			at := card{p.Spec.NodeName, c.Index}
			for _, other := range used[at] {
				if other.mask&uint64(c.SliceMask) != 0 || other.milli+c.ComputeMilli > 1000 {
					return fmt.Errorf("card %d of node %s is held by pod %s and by pod %s", at.index, at.node, other.pod, p.Name)
				}
			}
			used[at] = append(used[at], use{uint64(c.SliceMask), c.ComputeMilli, p.Name})
		}
	}
	return nil
}
