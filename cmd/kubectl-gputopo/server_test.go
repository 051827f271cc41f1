package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// request is one call that a server received.
type request struct {
	method, path, contentType, body string
}

// calls is what a server received.
type calls struct{ list []request }

// server answers requests by path and returns a kubeconfig with a context "there" for it; the current context of the
// kubeconfig leads nowhere. Unknown paths are not found.
func server(t *testing.T, answers map[string]any) (kubeconfig string, requests *calls) {
	t.Helper()
	requests = &calls{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		requests.list = append(requests.list, request{method: r.Method, path: r.URL.RequestURI(), contentType: r.Header.Get("Content-Type"), body: string(body)})
		answer, ok := answers[r.URL.Path]
		w.Header().Set("Content-Type", "application/json")
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404, "message": r.URL.Path + " not found"}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	config := clientcmdapi.NewConfig()
	config.Clusters["there"] = &clientcmdapi.Cluster{Server: s.URL}
	config.Contexts["there"] = &clientcmdapi.Context{Cluster: "there"}
	config.Clusters["nowhere"] = &clientcmdapi.Cluster{Server: "http://127.0.0.1:1"}
	config.Contexts["nowhere"] = &clientcmdapi.Context{Cluster: "nowhere"}
	config.CurrentContext = "nowhere"
	text, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig, requests
}
