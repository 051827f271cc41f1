package main

import (
	"runtime"
	"strings"
	"testing"
)

func TestVersion(t *testing.T) {
	for built, want := range map[string]string{
		"v1.37.2+v0.1.0-3-gabc": "kubectl-gputopo v0.1.0-3-gabc (Kubernetes v1.37.2, " + runtime.Version() + ")",
		"v1.37.2":               "kubectl-gputopo unknown (Kubernetes v1.37.2, " + runtime.Version() + ")",
	} {
		if got := versionText(built); got != want {
			t.Errorf("versionText(%q) = %q, want %q", built, got, want)
		}
	}
	got := run(t, "", "version")
	checkFailure(t, got.failure, "")
	if !strings.HasPrefix(got.out, "kubectl-gputopo ") {
		t.Errorf("output = %q", got.out)
	}
}
