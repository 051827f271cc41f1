package topology

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readLingjun returns the labels of the hosts of a production Clos network: host, DSW (core), PSW (spine), ASW (leaf).
// The file stands beside the repository and not in it.
func readLingjun(t testing.TB) map[string]labels {
	t.Helper()
	file, err := os.Open(filepath.Join(filepath.Dir(sharedTopo(t)), "traces", "lingjun", "topo.csv"))
	if err != nil {
		t.Skipf("the trace is not here: %v", err)
	}
	defer func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	}()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	hosts := make(map[string]labels)
	for _, row := range rows[1:] {
		hosts[row[0]] = labels{keyOldCore: row[1], keyOldSpine: row[2], keyOldLeaf: row[3]}
	}
	return hosts
}

func TestLingjun(t *testing.T) {
	hosts := readLingjun(t)
	b := NewFabricBuilder(nil)
	size := make(map[[2]string]int)
	spines := make(map[string]map[string]bool) // per name of a leaf
	for name, ls := range hosts {
		b.SetNode(name, ls)
		size[[2]string{ls[keyOldSpine], ls[keyOldLeaf]}]++
		if spines[ls[keyOldLeaf]] == nil {
			spines[ls[keyOldLeaf]] = make(map[string]bool)
		}
		spines[ls[keyOldLeaf]][ls[keyOldSpine]] = true
	}
	f := b.Fabric()
	type counts struct{ Hosts, Leaves, Spines, Cores, Zones int }
	got := counts{
		Hosts: f.Len(), Leaves: len(f.Domains(LevelLeaf)), Spines: len(f.Domains(LevelSpine)),
		Cores: len(f.Domains(LevelCore)), Zones: len(f.Domains(LevelZone)),
	}
	if diff := cmp.Diff(counts{Hosts: 847, Leaves: 119, Spines: 3, Cores: 1, Zones: 1}, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for _, d := range f.Domains(LevelLeaf) {
		ls := hosts[f.Name(d.First)]
		if want := size[[2]string{ls[keyOldSpine], ls[keyOldLeaf]}]; d.Len() != want || d.Unknown {
			t.Errorf("%+v holds %d hosts, want %d", d, d.Len(), want)
		}
		want := ls[keyOldLeaf]
		if len(spines[want]) > 1 {
			want = ls[keyOldSpine] + "/" + want
		}
		if d.Name != want {
			t.Errorf("leaf %q, want %q", d.Name, want)
		}
	}
	reused := 0
	for _, s := range spines {
		if len(s) > 1 {
			reused++
		}
	}
	if got := len(f.Problems()); got != reused || reused == 0 {
		t.Errorf("%d problems, want one for each of the %d names of several leaves", got, reused)
	}
}
