package results

import (
	"fmt"
	"os"
	"runtime"
	"strings"
)

// Machine is what figures were measured on.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Go    string `json:"go"`
	// Load is the load average of the minute before the run: what else the machine had to do.
	Load string `json:"load"`
}

// ThisMachine reads what Linux says of itself; empty where it says nothing.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown CPU", Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(text), "model name"); ok {
			line, _, _ := strings.Cut(rest, "\n")
			m.CPU = strings.TrimLeft(line, "\t :")
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}

// String is one line.
func (m Machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, %s, load before %s", m.CPU, m.Cores, m.OS, m.Go, m.Load)
}
