package main

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/utils/ptr"
)

// The lease of the configuration that ships.
const (
	leaseNamespace = "gpu-topology-system"
	leaseName      = "gpu-topology-scheduler"
	// holder is this program, which holds the lease for as long as a scheduler must wait.
	holder = "outside"
	// leaseSeconds is longer than any round.
	leaseSeconds = 3600
	// leaderPoll is how exactly the clock of a backlog starts.
	leaderPoll = 5 * time.Millisecond
)

func leases(client kubernetes.Interface) coordinationclient.LeaseInterface {
	return client.CoordinationV1().Leases(leaseNamespace)
}

// take makes identity the holder of the lease; "" gives it up. A scheduler looks every two seconds or so.
func take(ctx context.Context, client kubernetes.Interface, identity string) error {
	now := metav1.NowMicro()
	spec := coordinationv1.LeaseSpec{
		HolderIdentity: &identity, LeaseDurationSeconds: ptr.To[int32](leaseSeconds), AcquireTime: &now, RenewTime: &now,
	}
	lease, err := leases(client).Get(ctx, leaseName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: leaseName, Namespace: leaseNamespace}, Spec: spec}
		_, err = leases(client).Create(ctx, lease, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec = spec
	_, err = leases(client).Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// takeWhenFree waits until nobody holds the lease, as a scheduler does.
func takeWhenFree(ctx context.Context, client kubernetes.Interface, identity string) error {
	if err := awaitHolder(ctx, client, poll, false); err != nil {
		return err
	}
	return take(ctx, client, identity)
}

// release gives the lease up and returns when another has it.
func release(ctx context.Context, client kubernetes.Interface) error {
	if err := take(ctx, client, ""); err != nil {
		return err
	}
	return awaitHolder(ctx, client, leaderPoll, true)
}

// awaitHolder waits until somebody holds the lease, or nobody does.
func awaitHolder(ctx context.Context, client kubernetes.Interface, period time.Duration, want bool) error {
	return wait.PollUntilContextCancel(ctx, period, true, func(ctx context.Context) (bool, error) {
		lease, err := leases(client).Get(ctx, leaseName, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return !want, nil
		}
		return err == nil && (ptr.Deref(lease.Spec.HolderIdentity, "") != "") == want, err
	})
}
