package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/kubernetes/test/utils/client-go/ktesting"

	"github.com/gputopology/gpu-topology-scheduler/pkg/podgroup/crd"
)

const (
	// crdPatience bounds the time until PodGroups are in discovery; it takes about a second.
	crdPatience = time.Minute
	crdVersion  = "scheduling.x-k8s.io/v1alpha1"
)

// installCRD installs the PodGroup CRD that ships and returns once discovery has it: createAny gives up where a kind is
// not there. It is installed in every case, so that cases differ in nothing else.
func installCRD(tCtx ktesting.TContext) error {
	ctx, cancel := context.WithTimeout(tCtx, crdPatience)
	defer cancel()
	if err := crd.Install(ctx, tCtx.Dynamic()); err != nil {
		return err
	}
	err := wait.PollUntilContextCancel(ctx, 50*time.Millisecond, true, func(context.Context) (bool, error) {
		list, err := tCtx.Client().Discovery().ServerResourcesForGroupVersion(crdVersion)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "podgroups" }), err
	})
	if err != nil {
		return fmt.Errorf("%s is not in discovery: %w", crdVersion, err)
	}
	return nil
}
