package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestDemoAndBenchNeedTheBinaries(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{{"demo"}, {"bench", "throughput"}} {
		got := run(t, "", append(args, "--binaries", empty)...)
		checkFailure(t, got.failure, filepath.Join(empty, "local-control-plane"))
		checkFailure(t, got.failure, "make build")
	}
}

func TestBenchRefusesWhatCannotEnd(t *testing.T) {
	got := run(t, "", "bench", "throughput", "--nodes", "1", "--pods", "9")
	checkFailure(t, got.failure, "9 pods ask for 21 GPUs; on 1 nodes every pod surely finds room up to 5")
	got = run(t, "", "bench", "throughput", "--nodes", "0")
	checkFailure(t, got.failure, "must be at least")
}

func TestTerminalWidthOfWhatIsNone(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	if got := terminalWidth(file); got != 0 {
		t.Errorf("width of a file = %d, want 0", got)
	}
	if got := terminalWidth(&bytes.Buffer{}); got != 0 {
		t.Errorf("width of a buffer = %d, want 0", got)
	}
}
