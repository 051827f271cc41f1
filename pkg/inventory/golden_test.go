package inventory

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestGolden resolves the nodes in testdata and compares all that is known of their cards. The nodes carry what the agents of
// the field write on them.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no test data: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var objects struct {
				Node   *v1.Node                    `json:"node"`
				Slices []*resourcev1.ResourceSlice `json:"slices"`
			}
			if err := yaml.UnmarshalStrict(data, &objects); err != nil {
				t.Fatal(err)
			}
			got := dump(Resolve(objects.Node, objects.Slices, Options{}))
			golden := strings.TrimSuffix(file, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("result differs from %s; if it should, run with -update (-want +got):\n%s", golden, diff)
			}
		})
	}
}
