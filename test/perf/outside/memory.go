package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// memory is what a process holds of the machine's memory, in MiB: now, and at most so far.
type memory struct{ resident, peak float64 }

// memoryOf asks Linux for it.
func memoryOf(pid int) (memory, error) {
	name := fmt.Sprintf("/proc/%d/status", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return memory{}, err
	}
	m, err := parseMemory(string(text))
	if err != nil {
		return memory{}, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// parseMemory reads VmRSS and VmHWM of proc_pid_status(5), which are in kB.
func parseMemory(text string) (m memory, err error) {
	for field, value := range map[string]*float64{"VmRSS": &m.resident, "VmHWM": &m.peak} {
		_, rest, ok := strings.Cut("\n"+text, "\n"+field+":")
		line, _, _ := strings.Cut(rest, "\n")
		words := strings.Fields(line)
		if !ok || len(words) != 2 || words[1] != "kB" {
			return memory{}, fmt.Errorf("%s: %.64q, want a number of kB", field, line)
		}
		kB, err := strconv.ParseUint(words[0], 10, 63)
		if err != nil {
			return memory{}, fmt.Errorf("%s: %w", field, err)
		}
		*value = float64(kB) / 1024
	}
	return m, nil
}
