package integration

import (
	"context"
	"net/http"
	"testing"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// headers keeps those of the last response.
type headers struct {
	http.RoundTripper

	last http.Header
}

func (h *headers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := h.RoundTripper.RoundTrip(r)
	if err == nil {
		h.last = response.Header
	}
	return response, err
}

// TestShippedFlows: the API server queues what the shipped account asks for where it queues kube-scheduler's requests, and not
// with those of all service accounts.
func TestShippedFlows(t *testing.T) {
	c := startCluster(t)
	seen := &headers{}
	config := rest.CopyConfig(c.install(t))
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		seen.RoundTripper = next
		return seen
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name, level string
		ask         func(ctx context.Context) error
	}{
		{"pods", "workload-high", func(ctx context.Context) error {
			_, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
			return err
		}},
		{"version", "workload-high", func(context.Context) error {
			_, err := client.Discovery().ServerVersion()
			return err
		}},
		{"its lease", "leader-election", func(ctx context.Context) error {
			_, err := client.CoordinationV1().Leases(shippedNamespace).Get(ctx, shippedName, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return nil // nobody leads
			}
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var level *flowcontrolv1.PriorityLevelConfiguration
			eventually(t, "the request is of level "+tt.level, func(ctx context.Context) (bool, error) {
				var err error
				if level, err = c.client.FlowcontrolV1().PriorityLevelConfigurations().Get(ctx, tt.level, metav1.GetOptions{}); err != nil {
					return false, err
				}
				if err := tt.ask(ctx); err != nil {
					return false, err
				}
				return seen.last.Get(flowcontrolv1.ResponseHeaderMatchedPriorityLevelConfigurationUID) == string(level.UID), nil
			})
		})
	}
}
