package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	yamlstream "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/gputopology/gpu-topology-scheduler/manifests"
)

const (
	// schedulerNamespace and schedulerAccount name the service account of manifests/base.
	schedulerNamespace = "gpu-topology-system"
	schedulerAccount   = "gpu-topology-scheduler"
	// fieldManager owns what this package applies.
	fieldManager = "gputopo-simulate"
	// applyPatience bounds the wait for a namespace that the API server itself makes soon after its start.
	applyPatience = 10 * time.Second
)

// ownPlugins are the plugins of this module; the default profile knows none of them.
var ownPlugins = []string{"Coscheduling", "GPUTopology", "GPUCapacityGate", fabricPlugin, spreadPlugin}

const (
	// fabricPlugin knows the fabric. Where it runs it stands in for stockPlacements of the default profile.
	fabricPlugin    = "NCCLTopology"
	stockPlacements = "TopologyPlacementGenerator"
	// spreadPlugin stands in for PodTopologySpread.
	spreadPlugin = "PodTopologySpreadTuned"
)

// aboutOwnPods are the kinds that say how the scheduler's own pods run. A simulated cluster has none: the scheduler is
// a process beside it.
var aboutOwnPods = []string{"Deployment", "PodDisruptionBudget"}

// shippedObjects reads the resources that base's kustomization lists, in its order, without those in aboutOwnPods.
func shippedObjects(base fs.FS) ([]*unstructured.Unstructured, error) {
	text, err := fs.ReadFile(base, manifests.Kustomization)
	if err != nil {
		return nil, err
	}
	var list struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", manifests.Kustomization, err)
	}
	var objects []*unstructured.Unstructured
	for _, name := range list.Resources {
		text, err := fs.ReadFile(base, name)
		if err != nil {
			return nil, err
		}
		parsed, err := parseObjects(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, o := range parsed {
			if !slices.Contains(aboutOwnPods, o.GetKind()) {
				objects = append(objects, o)
			}
		}
	}
	if len(objects) == 0 {
		return nil, fmt.Errorf("%s: lists no resources", manifests.Kustomization)
	}
	return objects, nil
}

// parseObjects reads the YAML documents of one file.
func parseObjects(text []byte) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yamlstream.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) == 0 {
			continue // comments alone
		}
		if o.GetKind() == "" || o.GetAPIVersion() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("object %d has no apiVersion, kind or name", len(objects))
		}
		objects = append(objects, o)
	}
}

// apply creates the objects or brings them to the given state.
func apply(ctx context.Context, client dynamic.Interface, objects []*unstructured.Unstructured) error {
	for _, o := range objects {
		resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
		var target dynamic.ResourceInterface = client.Resource(resource)
		if o.GetNamespace() != "" {
			target = client.Resource(resource).Namespace(o.GetNamespace())
		}
		var last error
		err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, applyPatience, true, func(ctx context.Context) (bool, error) {
			_, last = target.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true})
			if last != nil && !apierrors.IsNotFound(last) {
				return false, last
			}
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), o.GetName(), cmp.Or(last, err))
		}
	}
	return nil
}

// change adapts a configuration before it is used.
type change func(config map[string]any) error

// DeriveConfig returns the shipped KubeSchedulerConfiguration with nothing but the changes.
func DeriveConfig(shipped []byte, changes ...change) ([]byte, error) {
	config := map[string]any{}
	if err := yaml.Unmarshal(shipped, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", manifests.SchedulerConfig, err)
	}
	for _, c := range changes {
		if err := c(config); err != nil {
			return nil, fmt.Errorf("%s: %w", manifests.SchedulerConfig, err)
		}
	}
	return yaml.Marshal(config)
}

// withKubeconfig says how to reach the cluster, which a scheduler in a pod knows by itself.
func withKubeconfig(path string) change {
	return func(config map[string]any) error {
		return unstructured.SetNestedField(config, path, "clientConnection", "kubeconfig")
	}
}

// WithoutPlugins is a change for StartScheduler: it leaves every profile with the default plugins alone.
// NodeResourcesFit then counts nvidia.com/gpu, and nobody chooses cards.
func WithoutPlugins(config map[string]any) error {
	return eachProfile(config, func(profile map[string]any) error {
		delete(profile, "plugins")
		return dropNamed(profile, ownPlugins, "pluginConfig")
	})
}

// WithoutFabric is a change for StartScheduler: our plugins do without NCCLTopology, so that all nodes count as equally far
// from each other.
func WithoutFabric(config map[string]any) error {
	return eachProfile(config, func(profile map[string]any) error {
		points, _, err := unstructured.NestedMap(profile, "plugins")
		if err != nil {
			return err
		}
		for point := range points {
			if err := dropNamed(profile, []string{fabricPlugin}, "plugins", point, "enabled"); err != nil {
				return err
			}
			if err := dropNamed(profile, []string{stockPlacements}, "plugins", point, "disabled"); err != nil {
				return err
			}
		}
		return dropNamed(profile, []string{fabricPlugin}, "pluginConfig")
	})
}

// eachProfile adapts all profiles.
func eachProfile(config map[string]any, adapt func(profile map[string]any) error) error {
	profiles, found, err := unstructured.NestedSlice(config, "profiles")
	if err != nil || !found {
		return fmt.Errorf("profiles: not a list: %w", err)
	}
	for i := range profiles {
		profile, ok := profiles[i].(map[string]any)
		if !ok {
			return fmt.Errorf("profiles[%d]: not an object", i)
		}
		if err := adapt(profile); err != nil {
			return fmt.Errorf("profiles[%d]: %w", i, err)
		}
	}
	return unstructured.SetNestedSlice(config, profiles, "profiles")
}

// dropNamed takes the objects with one of the names out of a list, where there is one.
func dropNamed(o map[string]any, names []string, path ...string) error {
	list, found, err := unstructured.NestedSlice(o, path...)
	if err != nil || !found {
		return err
	}
	return unstructured.SetNestedSlice(o, slices.DeleteFunc(list, func(e any) bool {
		entry, ok := e.(map[string]any)
		if !ok {
			return false
		}
		name, ok := entry["name"].(string)
		return ok && slices.Contains(names, name)
	}), path...)
}
