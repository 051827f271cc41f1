package crd

import (
	"context"
	"fmt"
	"io/fs"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/manifests"
)

var (
	definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	podGroups   = schema.GroupVersionResource{Group: "scheduling.x-k8s.io", Version: "v1alpha1", Resource: "podgroups"}
)

// pollPeriod is the time between two looks at the definition. An API server serves a new one within about a second.
const pollPeriod = 50 * time.Millisecond

// Install makes the cluster serve PodGroups, and returns when it does or ctx ends. It creates the definition that ships;
// one that is there is left alone, whoever installed it, but it must serve v1alpha1.
func Install(ctx context.Context, client dynamic.Interface) error {
	definition, err := shipped()
	if err != nil {
		return err
	}
	name := definition.GetName()
	_, err = client.Resource(definitions).Create(ctx, definition, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create CustomResourceDefinition %s: %w", name, err)
	}
	state := "nothing is known of it"
	err = wait.PollUntilContextCancel(ctx, pollPeriod, true, func(ctx context.Context) (bool, error) {
		installed, err := client.Resource(definitions).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			state = err.Error()
			return false, nil //nolint:nilerr // it is tried again until ctx ends
		}
		if !serves(installed, podGroups.Version) {
			return false, fmt.Errorf("the installed one does not serve version %s", podGroups.Version)
		}
		if !established(installed) {
			state = "it is not established"
			return false, nil
		}
		// Established is what the server means to serve; that it does takes it a moment more.
		if _, err := client.Resource(podGroups).List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
			state = err.Error()
			return false, nil //nolint:nilerr // it is tried again until ctx ends
		}
		return true, nil
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait for CustomResourceDefinition %s: %w: %s", name, context.Cause(ctx), state)
	}
	if err != nil {
		return fmt.Errorf("CustomResourceDefinition %s: %w", name, err)
	}
	return nil
}

// shipped reads the definition from manifests/crds.
func shipped() (*unstructured.Unstructured, error) {
	files, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	text, err := fs.ReadFile(files, manifests.PodGroupCRD)
	if err != nil {
		return nil, err
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &definition.Object); err != nil {
		return nil, fmt.Errorf("%s: %w", manifests.PodGroupCRD, err)
	}
	return definition, nil
}

// serves reports whether the definition serves a version.
func serves(definition *unstructured.Unstructured, version string) bool {
	return has(definition, func(entry map[string]any) bool {
		served, ok := entry["served"].(bool)
		return ok && served && entry["name"] == version
	}, "spec", "versions")
}

func established(definition *unstructured.Unstructured) bool {
	return has(definition, func(entry map[string]any) bool {
		return entry["type"] == "Established" && entry["status"] == "True"
	}, "status", "conditions")
}

// has reports whether a list in the definition has a matching entry. A list of another form has none.
func has(definition *unstructured.Unstructured, matches func(map[string]any) bool, path ...string) bool {
	list, _, err := unstructured.NestedSlice(definition.Object, path...)
	if err != nil {
		return false
	}
	for _, item := range list {
		if entry, ok := item.(map[string]any); ok && matches(entry) {
			return true
		}
	}
	return false
}
