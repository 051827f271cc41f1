package crd

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	schedulingv1alpha1 "sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"
	"sigs.k8s.io/yaml"
)

const name = "podgroups.scheduling.x-k8s.io"

func client(objects ...runtime.Object) *fake.FakeDynamicClient {
	return fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		definitions: "CustomResourceDefinitionList", podGroups: "PodGroupList",
	}, objects...)
}

func definition(t *testing.T, change func(*unstructured.Unstructured) error) *unstructured.Unstructured {
	t.Helper()
	d, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	if err := change(d); err != nil {
		t.Fatal(err)
	}
	return d
}

func establish(d *unstructured.Unstructured) error {
	return unstructured.SetNestedSlice(d.Object, []any{
		map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"},
	}, "status", "conditions")
}

func stored(t *testing.T, c *fake.FakeDynamicClient) *unstructured.Unstructured {
	t.Helper()
	d, err := c.Resource(definitions).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestInstallCreatesAndWaits(t *testing.T) {
	c := client()
	// It is established at the third look, and served at the second try to list.
	looks, lists := 0, 0
	c.PrependReactor("get", "customresourcedefinitions", func(clienttesting.Action) (bool, runtime.Object, error) {
		if looks++; looks < 3 {
			return false, nil, nil
		}
		return true, definition(t, establish), nil
	})
	c.PrependReactor("list", "podgroups", func(clienttesting.Action) (bool, runtime.Object, error) {
		if lists++; lists < 2 {
			return true, nil, errors.New("the server could not find the requested resource")
		}
		return false, nil, nil
	})
	if err := Install(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if looks != 4 || lists != 2 {
		t.Errorf("returned after %d looks and %d lists, want 4 and 2", looks, lists)
	}
}

func TestInstallLeavesAnExistingOneAlone(t *testing.T) {
	existing := definition(t, func(d *unstructured.Unstructured) error {
		d.SetAnnotations(map[string]string{"owner": "someone else"})
		return establish(d)
	})
	c := client(existing.DeepCopy())
	if err := Install(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(existing.Object, stored(t, c).Object); diff != "" {
		t.Errorf("the definition changed (-before +after):\n%s", diff)
	}
}

func TestInstallErrors(t *testing.T) {
	other := definition(t, func(d *unstructured.Unstructured) error {
		return errors.Join(establish(d), unstructured.SetNestedSlice(d.Object, []any{
			map[string]any{"name": "v1", "served": true}, map[string]any{"name": "v1alpha1", "served": false},
		}, "spec", "versions"))
	})
	tests := map[string]struct {
		client    *fake.FakeDynamicClient
		cancelled bool
		want      string
	}{
		"another version":   {client(other), false, "the installed one does not serve version v1alpha1"},
		"never established": {client(), true, "it is not established"},
		"no right":          {refusing(), false, "create CustomResourceDefinition " + name + ": no right"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if test.cancelled {
				test.client.PrependReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { cancel(); return false, nil, nil })
			}
			err := Install(ctx, test.client)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Install() error = %v, want one with %q", err, test.want)
			}
			if errors.Is(err, context.Canceled) != test.cancelled {
				t.Errorf("Install() error = %v is context.Canceled, want that only for an ended context", err)
			}
		})
	}
}

func refusing() *fake.FakeDynamicClient {
	c := client()
	c.PrependReactor("create", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no right") })
	return c
}

// TestShippedEqualsTheModules holds that what ships is what the module's own project generates. When the module's version
// changes, take config/crd/bases/scheduling.x-k8s.io_podgroups.yaml from it.
func TestShippedEqualsTheModules(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/scheduler-plugins")
	folder, err := list.Output()
	if err != nil {
		t.Skipf("the folder of the module is not known: %v", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "config", "crd", "bases", "scheduling.x-k8s.io_podgroups.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := yaml.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	got, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Errorf("CustomResourceDefinition (-module +shipped):\n%s", diff)
	}
}

// TestSchemaHasTheFieldsOfTheType holds that the server keeps every field that the client writes, and no other.
func TestSchemaHasTheFieldsOfTheType(t *testing.T) {
	d, err := shipped()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(d.Object)
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Type, Format string
		Minimum      *int
		Properties   map[string]node
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Name            string
				Served, Storage bool
				Schema          struct{ OpenAPIV3Schema node }
				Subresources    map[string]any
			}
		}
	}
	if err := json.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	if len(crd.Spec.Versions) != 1 {
		t.Fatalf("%d versions, want 1", len(crd.Spec.Versions))
	}
	v := crd.Spec.Versions[0]
	if _, has := v.Subresources["status"]; !has || v.Name != "v1alpha1" || !v.Served || !v.Storage {
		t.Errorf("version %s: served %t, stored %t, status subresource %t", v.Name, v.Served, v.Storage, has)
	}
	root := v.Schema.OpenAPIV3Schema.Properties
	for field, of := range map[string]reflect.Type{
		"spec":   reflect.TypeFor[schedulingv1alpha1.PodGroupSpec](),
		"status": reflect.TypeFor[schedulingv1alpha1.PodGroupStatus](),
	} {
		got := map[string]string{}
		for name, p := range root[field].Properties {
			got[name] = strings.TrimSuffix(p.Type+" "+p.Format, " ")
		}
		if diff := cmp.Diff(jsonFields(t, of), got); diff != "" {
			t.Errorf("fields of %s (-Go type +schema):\n%s", field, diff)
		}
	}
	if least := root["spec"].Properties["minMember"].Minimum; least == nil || *least != 1 {
		t.Error("the server accepts a minMember below 1")
	}
}

// jsonFields maps the names of the fields to the schema types of their values.
func jsonFields(t *testing.T, of reflect.Type) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for field := range of.Fields() {
		kind := field.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case kind == reflect.TypeFor[metav1.Time]():
			fields[name] = "string date-time"
		case kind.Kind() == reflect.Int32:
			fields[name] = "integer int32"
		case kind.Kind() == reflect.String:
			fields[name] = "string"
		case kind.Kind() == reflect.Map:
			fields[name] = "object"
		default:
			t.Errorf("field %s of type %s: the test does not know its schema", name, kind)
		}
	}
	return fields
}
