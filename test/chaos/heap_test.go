package chaos

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const (
	// heapPath is where the scheduler serves its heap profile.
	heapPath = "/debug/pprof/heap"
	// profileRate is GODEBUG=memprofilerate of a process whose heap is looked into: one sample in so many bytes.
	profileRate = 16 << 10
	// module begins the names of the functions that are ours.
	module = "github.com/gputopology/gpu-topology-scheduler/"
)

// parts are what a heap is looked into for: what functions allocated whose names begin like that, or others on their behalf.
// Tombstones are the part of ours that the ledger fills up to its bound; the cache of events is client-go's; pods are those
// that came from the API server, whoever keeps them.
var parts = [...]struct{ name, prefix string }{
	{"ours", module}, {"tombstones", module + "pkg/ledger.(*tombstones)"},
	{"events", "k8s.io/client-go/tools/events."}, {"pods", "k8s.io/api/core/v1.(*Pod).Unmarshal"},
}

// heap is what a process holds after a collection: its live bytes and objects, the bytes of the pages that they stand in, and
// an estimate of the live bytes of each part.
type heap struct {
	bytes, objects, inUse float64
	parts                 [len(parts)]float64
}

// ask reads from an address of the scheduler's.
func ask(ctx context.Context, client *http.Client, address string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := response.Body.Close(); err == nil {
			err = closed
		}
	}()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", address, response.Status)
	}
	return io.ReadAll(response.Body)
}

// collect has a process collect its garbage and returns what is left.
func collect(ctx context.Context, client *http.Client, base string) (heap, error) {
	profile, err := ask(ctx, client, base+heapPath+"?gc=1&debug=1")
	if err != nil {
		return heap{}, err
	}
	return readProfile(string(profile))
}

// keepProfile writes the heap profile of a process for go tool pprof.
func keepProfile(ctx context.Context, client *http.Client, base, folder, name string) error {
	profile, err := ask(ctx, client, base+heapPath)
	if err != nil {
		return nil //nolint:nilerr // it has ended just now
	}
	return os.WriteFile(filepath.Join(folder, name), profile, 0o600)
}

var errNoProfile = errors.New("not a heap profile")

// readProfile reads a heap profile in text form, and adds up the live bytes by the functions in their stacks. Each record is
//
//	objects: bytes [objects ever: bytes ever] @ address ...
//	#	address	function+offset	file:line       (one a frame)
//
// A record stands for more than was sampled: of objects of s bytes, one in 1/(1-exp(-s/rate)). The numbers of the runtime
// come at the end; they were read before the profile was written.
func readProfile(profile string) (h heap, err error) {
	lines := bufio.NewScanner(strings.NewReader(profile))
	lines.Buffer(nil, 1<<20)
	var twice, objects, bytes, everObjects, everBytes int64
	if !lines.Scan() {
		return h, errNoProfile
	}
	if _, err := fmt.Sscanf(lines.Text(), "heap profile: %d: %d [%d: %d] @ heap/%d", &objects, &bytes, &everObjects, &everBytes, &twice); err != nil {
		return h, fmt.Errorf("%w: %w", errNoProfile, err)
	}
	rate, live, counted := float64(twice)/2, 0.0, [len(parts)]bool{}
	for lines.Scan() {
		frame, isFrame := strings.CutPrefix(lines.Text(), "#\t")
		if !isFrame {
			live, counted = 0, [len(parts)]bool{}
			if _, err := fmt.Sscanf(lines.Text(), "%d: %d [", &objects, &bytes); err == nil && objects > 0 {
				live = float64(bytes) / (1 - math.Exp(-float64(bytes)/float64(objects)/rate))
			}
			h.total(lines.Text())
			continue
		}
		_, function, _ := strings.Cut(frame, "\t")
		for i, part := range parts {
			if !counted[i] && strings.HasPrefix(function, part.prefix) {
				h.parts[i] += live
				counted[i] = true
			}
		}
	}
	if h.bytes == 0 {
		return h, errNoProfile
	}
	return h, lines.Err()
}

// total reads a line such as "# HeapAlloc = 5".
func (h *heap) total(line string) {
	for name, into := range map[string]*float64{"HeapAlloc": &h.bytes, "HeapObjects": &h.objects, "HeapInuse": &h.inUse} {
		if value, ok := strings.CutPrefix(line, "# "+name+" = "); ok {
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				*into = float64(n)
			}
		}
	}
}

// TestReadProfile: what is counted is live, has a function of the part somewhere in its stack, and stands for what was not
// sampled.
func TestReadProfile(t *testing.T) {
	const profile = `heap profile: 5: 9216 [100: 99999] @ heap/32768
2: 2048 [50: 5000] @ 0x1 0x2
#	0x1	runtime.mapassign+0x1	runtime/map.go:1
#	0x2	` + module + `pkg/ledger.(*Ledger).Assume+0x2	` + module + `pkg/ledger/ledger.go:2
#	0x3	` + module + `pkg/engine.(*Engine).Reserve+0x2	` + module + `pkg/engine/engine.go:2

1: 4096 [1: 4096] @ 0x4
#	0x1	k8s.io/api/core/v1.(*Pod).Unmarshal+0x1	k8s.io/api/core/v1/generated.pb.go:7
#	0x4	main.main+0x4	` + module + `cmd/gpu-topology-scheduler/main.go:35

0: 0 [9: 999] @ 0x2
#	0x2	` + module + `pkg/ledger.(*Ledger).Assume+0x2	` + module + `pkg/ledger/ledger.go:2

# runtime.MemStats
# Alloc = 5
# HeapAlloc = 6
# HeapInuse = 7
# HeapObjects = 8
`
	want := [len(parts)]float64{2048 / (1 - math.Exp(-1024.0/16384)), 0, 0, 4096 / (1 - math.Exp(-4096.0/16384))}
	got, err := readProfile(profile)
	for i := range want {
		if math.Abs(got.parts[i]-want[i]) > 1e-6 || err != nil {
			t.Errorf("%s: %v, error %v, want %v", parts[i].name, got.parts[i], err, want[i])
		}
	}
	if got.bytes != 6 || got.inUse != 7 || got.objects != 8 {
		t.Errorf("totals %+v", got)
	}
	for _, bad := range []string{"", "<html>", "heap profile: 5: 9216 [100: 99999] @ heap/32768\n"} {
		if got, err := readProfile(bad); err == nil {
			t.Errorf("%q is %v bytes", bad, got)
		}
	}
}
