package preflight

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
)

// fakeDiscovery maps a group version to the resources that a server has; one that is absent is NotFound.
type fakeDiscovery struct {
	served map[string][]string
	err    error
	empty  bool
}

func (d fakeDiscovery) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	if d.err != nil {
		return nil, d.err
	}
	if d.empty {
		return nil, nil
	}
	names, ok := d.served[groupVersion]
	if !ok {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
	}
	list := &metav1.APIResourceList{GroupVersion: groupVersion}
	for _, name := range names {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: name})
	}
	return list, nil
}

func TestMissing(t *testing.T) {
	required := []Requirement{
		{Gate: "Second", Resource: schema.GroupVersionResource{Group: "b.io", Version: "v1", Resource: "bs"}},
		{Gate: "First", Resource: schema.GroupVersionResource{Group: "a.io", Version: "v1", Resource: "as"}},
		{Gate: "Core", Resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}},
	}
	core := []string{"nodes", "pods"}
	tests := map[string]struct {
		server  fakeDiscovery
		want    []featuregate.Feature
		wantErr string
	}{
		"all served":              {server: fakeDiscovery{served: map[string][]string{"a.io/v1": {"as"}, "b.io/v1": {"bs"}, "v1": core}}},
		"group version absent":    {server: fakeDiscovery{served: map[string][]string{"b.io/v1": {"bs"}, "v1": core}}, want: []featuregate.Feature{"First"}},
		"resource absent":         {server: fakeDiscovery{served: map[string][]string{"a.io/v1": {"as/status"}, "b.io/v1": {"bs"}, "v1": core}}, want: []featuregate.Feature{"First"}},
		"several, by name":        {server: fakeDiscovery{served: map[string][]string{"v1": core}}, want: []featuregate.Feature{"First", "Second"}},
		"server cannot be asked":  {server: fakeDiscovery{err: errors.New("connection refused")}, wantErr: "connection refused"},
		"forbidden is no absence": {server: fakeDiscovery{err: apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))}, wantErr: "b.io/v1, which gate Second needs"},
		"answer without a list":   {server: fakeDiscovery{empty: true}, wantErr: "no resource list"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Missing(tt.server, required)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) || got != nil {
					t.Fatalf("Missing: %v, %v, want an error with %q", got, err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("missing (-want +got):\n%s", d)
			}
		})
	}
}

// TestRequirementsAreOfGatesThatAreOn: a gate that is off by default is the user's choice.
func TestRequirementsAreOfGatesThatAreOn(t *testing.T) {
	if len(Requirements()) == 0 {
		t.Fatal("no requirement")
	}
	for _, r := range Requirements() {
		if !utilfeature.DefaultFeatureGate.Enabled(r.Gate) {
			t.Errorf("gate %s is off by default", r.Gate)
		}
	}
}
