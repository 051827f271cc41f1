package simulate

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/gputopology/gpu-topology-scheduler/manifests"
)

// serve runs an API server of one handler.
func serve(t *testing.T, handler http.HandlerFunc) *rest.Config {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func reply(t *testing.T, w http.ResponseWriter, code int, body any) {
	t.Helper()
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		t.Error(err)
	}
}

func status(code int, reason metav1.StatusReason) metav1.Status {
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: string(reason)}
}

func TestApplyWaitsForTheNamespace(t *testing.T) {
	base, err := manifests.Base()
	if err != nil {
		t.Fatal(err)
	}
	objects, err := shippedObjects(base)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	refusals := 2
	config := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Method+" "+r.URL.Path)
		if strings.Contains(r.URL.Path, "/kube-system/") && refusals > 0 {
			refusals--
			reply(t, w, http.StatusNotFound, status(http.StatusNotFound, metav1.StatusReasonNotFound))
			return
		}
		if want := "application/apply-patch+yaml"; r.Header.Get("Content-Type") != want {
			t.Errorf("content type = %q, want %q", r.Header.Get("Content-Type"), want)
		}
		reply(t, w, http.StatusOK, map[string]any{"apiVersion": "v1", "kind": "Thing", "metadata": map[string]any{"name": "x"}})
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(t.Context(), client, objects); err != nil {
		t.Fatal(err)
	}
	const rbac = "PATCH /apis/rbac.authorization.k8s.io/v1/"
	reader := rbac + "namespaces/kube-system/rolebindings/gpu-topology-scheduler-authentication-reader"
	want := []string{
		"PATCH /api/v1/namespaces/gpu-topology-system",
		"PATCH /api/v1/namespaces/gpu-topology-system/serviceaccounts/gpu-topology-scheduler",
		rbac + "clusterroles/gpu-topology-scheduler",
		rbac + "clusterrolebindings/gpu-topology-scheduler",
		rbac + "namespaces/gpu-topology-system/roles/gpu-topology-scheduler",
		rbac + "namespaces/kube-node-lease/roles/gpu-topology-scheduler-node-leases",
		rbac + "namespaces/gpu-topology-system/rolebindings/gpu-topology-scheduler",
		rbac + "namespaces/kube-node-lease/rolebindings/gpu-topology-scheduler-node-leases",
		reader, reader, reader,
		"PATCH /apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/gpu-topology-scheduler",
		"PATCH /apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/gpu-topology-scheduler-leader-election",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestApplyNamesTheObjectThatIsRefused(t *testing.T) {
	config := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		reply(t, w, http.StatusForbidden, status(http.StatusForbidden, metav1.StatusReasonForbidden))
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	objects, err := parseObjects([]byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: space}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(t.Context(), client, objects); err == nil || !strings.Contains(err.Error(), "apply Namespace space: Forbidden") {
		t.Errorf("error = %v, want one that names the object and the refusal", err)
	}
}

// event is one line of a watch.
type event struct {
	Type   string `json:"type"`
	Object any    `json:"object"`
}

func TestCreatePodWaitsForTheDecision(t *testing.T) {
	pod := func(version string, change func(*v1.Pod)) *v1.Pod {
		p := &v1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", ResourceVersion: version}}
		if change != nil {
			change(p)
		}
		return p
	}
	condition := func(reason string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason, Message: reason}}
		}
	}
	bound := func(p *v1.Pod) { p.Spec.NodeName = "n1" }
	tests := map[string]struct {
		events      []event
		wantVersion string
		wantError   string
	}{
		"bound":         {[]event{{"MODIFIED", pod("2", nil)}, {"MODIFIED", pod("3", bound)}}, "3", ""},
		"unschedulable": {[]event{{"MODIFIED", pod("2", condition(v1.PodReasonSchedulerError))}, {"MODIFIED", pod("3", condition(v1.PodReasonUnschedulable))}}, "3", ""},
		"deleted":       {[]event{{"DELETED", pod("2", nil)}}, "", "the pod was deleted"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					reply(t, w, http.StatusCreated, pod("1", nil))
					return
				}
				if q := r.URL.Query(); q.Get("fieldSelector") != "metadata.name=p" || q.Get("resourceVersion") != "1" {
					t.Errorf("watch of %s, want the pod's from version 1", r.URL.RawQuery)
				}
				w.Header().Set("Content-Type", "application/json")
				for _, e := range tc.events {
					if err := json.NewEncoder(w).Encode(e); err != nil {
						t.Error(err)
					}
				}
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
				<-r.Context().Done()
			})
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				t.Fatal(err)
			}
			got, err := createPod(t.Context(), client, pod("", nil))
			switch {
			case tc.wantError == "" && err != nil:
				t.Fatal(err)
			case tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)):
				t.Errorf("error = %v, want one with %q", err, tc.wantError)
			case tc.wantError == "" && got.ResourceVersion != tc.wantVersion:
				t.Errorf("version = %s, want %s", got.ResourceVersion, tc.wantVersion)
			}
		})
	}
}

func TestCPUSeconds(t *testing.T) {
	tests := map[string]struct {
		code      int
		body      string
		want      float64
		wantError string
	}{
		"found":         {http.StatusOK, "# HELP process_cpu_seconds_total Total\nprocess_cpu_seconds_total_x 1\nprocess_cpu_seconds_total 12.5\n", 12.5, ""},
		"absent":        {http.StatusOK, "go_threads 5\n", 0, "no process_cpu_seconds_total"},
		"not a number":  {http.StatusOK, "process_cpu_seconds_total much\n", 0, "much"},
		"not permitted": {http.StatusForbidden, "", 0, "403"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/metrics" {
					t.Errorf("request for %s", r.URL.Path)
				}
				w.WriteHeader(tc.code)
				if _, err := w.Write([]byte(tc.body)); err != nil {
					t.Error(err)
				}
			})
			client, err := metricsClient(config)
			if err != nil {
				t.Fatal(err)
			}
			got, err := cpuSeconds(t.Context(), client, config.Host)
			if tc.wantError == "" && err != nil || tc.wantError != "" && (err == nil || !strings.Contains(err.Error(), tc.wantError)) {
				t.Errorf("error = %v, want %q", err, tc.wantError)
			}
			if got != tc.want {
				t.Errorf("seconds = %v, want %v", got, tc.want)
			}
		})
	}
}
