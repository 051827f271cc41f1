package checkout

import (
	"os"
	"path/filepath"
	"testing"
)

// Root is the folder of go.mod.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = parent
	}
}

// Binary returns the path of a built binary, and skips the test where it is missing; in CI it fails.
func Binary(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(Root(t), "bin", name)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("bin/%s is missing: run make build first", name)
		}
		t.Skipf("bin/%s is missing: run make build first", name)
	}
	return path
}

// SchedulerConfig returns the path of the shipped configuration.
func SchedulerConfig(t testing.TB) string {
	t.Helper()
	return filepath.Join(Root(t), "manifests", "base", "scheduler-config.yaml")
}
