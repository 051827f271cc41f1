package main

import (
	"strings"
	"testing"

	"github.com/gputopology/gpu-topology-scheduler/pkg/command"
)

// TestJSONLogs: kube-scheduler's second log format is linked in. What a format lacks is refused before the file of --config is read.
func TestJSONLogs(t *testing.T) {
	cmd := command.New("gpu-topology-scheduler", func() bool { return false })
	cmd.SetArgs([]string{"--logging-format=json", "--config=/nonexistent/config.yaml"})
	cmd.SilenceUsage, cmd.SilenceErrors = true, true
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "/nonexistent/config.yaml") {
		t.Errorf("error %v, want one about the file", err)
	}
}
