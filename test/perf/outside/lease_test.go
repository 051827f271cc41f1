package main

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

func holderOf(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	lease, err := leases(client).Get(t.Context(), leaseName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// TestLease holds the lease, has another wait for it, and sees it go over.
func TestLease(t *testing.T) {
	client := fake.NewClientset()
	if err := take(t.Context(), client, holder); err != nil {
		t.Fatal(err)
	}
	if got := holderOf(t, client); got != holder {
		t.Fatalf("holder = %q, want %q", got, holder)
	}
	waited := make(chan error, 1)
	go func() { waited <- takeWhenFree(t.Context(), client, "next") }()
	if err := release(t.Context(), client); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Fatal(err)
	}
	if got := holderOf(t, client); got != "next" {
		t.Errorf("holder = %q, want next", got)
	}
}
