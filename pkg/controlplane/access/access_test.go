package access

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestWriteKubeconfig(t *testing.T) {
	pki := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(pki, name)
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for name, want := range map[string]*rest.Config{
		"token": {
			Host: "https://127.0.0.1:6443", BearerToken: "secret",
			TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca")},
		},
		"certificate": {
			Host:            "https://127.0.0.1:6443",
			TLSClientConfig: rest.TLSClientConfig{CAData: []byte("ca"), CertData: []byte("crt"), KeyData: []byte("key")},
		},
		"files": {
			Host:            "https://127.0.0.1:6443",
			TLSClientConfig: rest.TLSClientConfig{CAFile: file("ca.crt"), CertFile: file("a.crt"), KeyFile: file("a.key")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "kubeconfig")
			if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := WriteKubeconfig(path, want); err != nil {
				t.Fatal(err)
			}
			got, err := clientcmd.BuildConfigFromFlags("", path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.String(), got.String()); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
			if got.BearerToken != want.BearerToken || !bytes.Equal(got.KeyData, want.KeyData) {
				t.Error("credentials differ")
			}
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if mode := info.Mode().Perm(); mode != 0o600 {
				t.Errorf("mode = %v, want 0600", mode)
			}
			left, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			if len(left) != 1 {
				t.Errorf("%d files in the directory, want 1", len(left))
			}
		})
	}
}

func TestWriteKubeconfigFails(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "is-a-directory")
	if err := os.MkdirAll(filepath.Join(blocked, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{
		"no such directory": filepath.Join(dir, "none", "kubeconfig"),
		"not a file":        blocked,
	} {
		t.Run(name, func(t *testing.T) {
			err := WriteKubeconfig(path, &rest.Config{Host: "https://127.0.0.1:1"})
			if err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("WriteKubeconfig() = %v, want an error that names %s", err, path)
			}
		})
	}
	left, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 1 {
		t.Errorf("%d entries left behind, want 1", len(left))
	}
}
