package chaos

import (
	"context"
	"crypto/tls"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gputopology/gpu-topology-scheduler/test/chaos/checker"
)

const (
	// memoryPeriod is the time between two measurements of a process. Each has it collect its garbage first.
	memoryPeriod = 5 * time.Second
	// warmUp is how long after the start measurements do not count: maps and pools get their size.
	warmUp = 2 * time.Minute
	// fewestMinutes is the number of minutes that a slope needs.
	fewestMinutes = 3
)

// memory is what a process held at one moment, right after a collection.
type memory struct {
	at time.Duration
	heap
	rss        int64
	goroutines int
	// pods is how many the cluster had.
	pods int
}

// quantity is what is told of a measurement.
type quantity struct {
	name string
	of   func(memory) float64
}

// quantities are all of them, those of the parts of the heap last.
func quantities() []quantity {
	all := []quantity{
		{"live heap, MiB", func(m memory) float64 { return m.bytes / float64(mib) }},
		{"live objects, 1000", func(m memory) float64 { return m.objects / 1000 }},
		{"heap in use, MiB", func(m memory) float64 { return m.inUse / float64(mib) }},
		{"resident, MiB", func(m memory) float64 { return mibOf(m.rss) }},
		{"goroutines", func(m memory) float64 { return float64(m.goroutines) }},
		{"pods in the cluster", func(m memory) float64 { return float64(m.pods) }},
	}
	for i, part := range parts {
		all = append(all, quantity{"live, MiB: " + part.name, func(m memory) float64 { return m.parts[i] / float64(mib) }})
	}
	return all
}

// watchMemory measures every replica until ctx ends. With a folder it leaves a heap profile a minute there.
func (d *driver) watchMemory(ctx context.Context, folder string) error {
	client := &http.Client{Timeout: memoryPeriod, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	defer client.CloseIdleConnections()
	ticker := time.NewTicker(memoryPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		for _, r := range d.replicas {
			if err := d.measure(ctx, client, r, folder); err != nil {
				return err
			}
		}
	}
}

// measure looks at one replica, if it is there. The error is one of writing its profile.
func (d *driver) measure(ctx context.Context, client *http.Client, r *replica, folder string) error {
	r.mu.Lock()
	process, paused, life, probes := r.process, r.paused, r.lifeName(), r.probes
	r.mu.Unlock()
	if process == nil || paused {
		return nil
	}
	m := memory{at: d.now(), pods: d.view.count()}
	var err error
	if m.heap, err = collect(ctx, client, probes); err != nil {
		return nil //nolint:nilerr // it is starting or ending
	}
	metrics, err := checker.FetchMetrics(ctx, client, probes)
	rss, known := residentBytes(process.PID())
	if err != nil || !known {
		return nil //nolint:nilerr // as above
	}
	m.goroutines, m.rss = metrics.Goroutines, rss
	d.stats.measured(life, m)
	if folder == "" {
		return nil
	}
	name := fmt.Sprintf("%s.%03dm.pb.gz", strings.ReplaceAll(life, " ", "."), int(m.at.Minutes()))
	return keepProfile(ctx, client, probes, folder, name)
}

func (s *stats) measured(name string, m memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.life(name)
	l.memory = append(l.memory, m)
}

// memoryReport tells of a life how each quantity went. The caller holds mu.
func (l *life) memoryReport() string {
	var settled []memory
	for _, m := range l.memory {
		if m.at >= warmUp {
			settled = append(settled, m)
		}
	}
	minutes := byMinute(settled)
	if len(minutes) < fewestMinutes {
		return ""
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%d measurements after garbage collection, without the first %v: means of each fifth, and slope by hour over means of a minute", len(settled), warmUp)
	for _, q := range quantities() {
		fmt.Fprintf(&text, "\n    %-22s", q.name)
		for i := range 5 {
			part := settled[i*len(settled)/5 : (i+1)*len(settled)/5]
			fmt.Fprintf(&text, "%9.2f", meanOf(part, q.of))
		}
		var values []float64
		for _, minute := range minutes {
			values = append(values, meanOf(minute, q.of))
		}
		perMinute, err := slope(values)
		fmt.Fprintf(&text, "   %+9.2f ± %.2f", perMinute*60, err*60)
	}
	return text.String()
}

// byMinute groups measurements by the minute that they fell in.
func byMinute(all []memory) [][]memory {
	var minutes [][]memory
	last := -1
	for _, m := range all {
		if now := int(m.at.Minutes()); now != last {
			minutes, last = append(minutes, nil), now
		}
		minutes[len(minutes)-1] = append(minutes[len(minutes)-1], m)
	}
	return minutes
}

func meanOf(all []memory, of func(memory) float64) float64 {
	sum := 0.0
	for _, m := range all {
		sum += of(m)
	}
	return sum / float64(len(all))
}

// slope is the slope of the line of least squares through values at 0, 1, 2, ..., with its standard error. It needs three.
func slope(values []float64) (perStep, standardError float64) {
	n := float64(len(values))
	middle, mean := (n-1)/2, 0.0
	for _, v := range values {
		mean += v / n
	}
	var xx, xy float64
	for i, v := range values {
		x := float64(i) - middle
		xx += x * x
		xy += x * (v - mean)
	}
	perStep = xy / xx
	rest := 0.0
	for i, v := range values {
		miss := v - mean - perStep*(float64(i)-middle)
		rest += miss * miss
	}
	return perStep, math.Sqrt(rest / (n - 2) / xx)
}

// TestSlope: a line is found exactly, and noise shows in the error.
func TestSlope(t *testing.T) {
	tests := map[string]struct {
		values             []float64
		wantSlope, wantErr float64
	}{
		"flat":  {[]float64{3, 3, 3}, 0, 0},
		"line":  {[]float64{1, 3, 5, 7}, 2, 0},
		"noise": {[]float64{0, 1, 0}, 0, math.Sqrt(1.0 / 3)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := slope(tt.values)
			if math.Abs(got-tt.wantSlope) > 1e-9 || math.Abs(err-tt.wantErr) > 1e-9 {
				t.Errorf("slope %v ± %v, want %v ± %v", got, err, tt.wantSlope, tt.wantErr)
			}
		})
	}
}

// TestMemoryReport: a life that grows shows by how much, without its start; a short one says nothing.
func TestMemoryReport(t *testing.T) {
	l := &life{}
	for at := time.Duration(0); at < warmUp+10*time.Minute; at += memoryPeriod {
		if report := l.memoryReport(); at <= warmUp+time.Minute && report != "" {
			t.Fatalf("after %v: %s", at, report)
		}
		m := memory{at: at, rss: mib * int64(1+at/time.Minute)}
		if at < warmUp {
			m.rss = 1 << 40
		}
		l.memory = append(l.memory, m)
	}
	report := l.memoryReport()
	for _, want := range []string{"120 measurements", "resident, MiB              3.50     5.50     7.50     9.50    11.50      +60.00 ± 0.00"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report lacks %q:\n%s", want, report)
		}
	}
}
