package podgroup

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/scheduler-plugins/pkg/generated/clientset/versioned"
)

// NewClient returns a client for PodGroups. It leaves config alone but talks JSON, whatever config says: the API server
// has no protobuf for custom resources.
func NewClient(config *rest.Config) (versioned.Interface, error) {
	if config == nil {
		return nil, fmt.Errorf("PodGroup client: no configuration")
	}
	c := rest.CopyConfig(config)
	c.ContentType = runtime.ContentTypeJSON
	c.AcceptContentTypes = runtime.ContentTypeJSON
	client, err := versioned.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("PodGroup client: %w", err)
	}
	return client, nil
}
