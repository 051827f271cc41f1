package preflight

import (
	"errors"
	"fmt"
	"sort"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
)

// Requirement names an API resource for which the scheduler starts an informer while Gate is on.
type Requirement struct {
	Gate     featuregate.Feature
	Resource schema.GroupVersionResource
}

// Requirements lists the gates that are on by default in Kubernetes 1.37 and whose API is newer than 1.34, the
// oldest API server that is supported. Gates that are off by default are the user's choice and are not touched.
func Requirements() []Requirement {
	return []Requirement{
		// Served by default since 1.37; the ResourceSlice tracker waits for it.
		{Gate: features.DRADeviceTaintRules, Resource: schema.GroupVersionResource{Group: "resource.k8s.io", Version: "v1", Resource: "devicetaintrules"}},
	}
}

// Costly lists gates that are on by default and that this scheduler turns off.
//
// NominatedNodeNameForExpectation writes the node of every pod that waits at Permit into its status, for the cluster
// autoscaler: one more write and one more event for each member of a gang, between two that follow each other within
// milliseconds. A member that is rejected as fast may keep what was written: upstream clears a nomination only if its pod
// object shows one already. The node then counts as promised to a pod that does not come.
func Costly() []featuregate.Feature {
	return []featuregate.Feature{features.NominatedNodeNameForExpectation}
}

// Discovery is the part of a discovery client that preflight needs.
type Discovery interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Missing returns, in order of their names, the gates whose resource the server does not serve. An error means that
// the server could not be asked; nothing is concluded then.
func Missing(server Discovery, required []Requirement) ([]featuregate.Feature, error) {
	var missing []featuregate.Feature
	for _, r := range required {
		served, err := serves(server, r.Resource)
		if err != nil {
			return nil, fmt.Errorf("ask the API server for %s, which gate %s needs: %w", r.Resource.GroupVersion(), r.Gate, err)
		}
		if !served {
			missing = append(missing, r.Gate)
		}
	}
	sort.Slice(missing, func(i, j int) bool { return missing[i] < missing[j] })
	return missing, nil
}

func serves(server Discovery, resource schema.GroupVersionResource) (bool, error) {
	list, err := server.ServerResourcesForGroupVersion(resource.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if list == nil {
		return false, errors.New("the API server answered with no resource list")
	}
	for i := range list.APIResources {
		if list.APIResources[i].Name == resource.Resource {
			return true, nil
		}
	}
	return false, nil
}
