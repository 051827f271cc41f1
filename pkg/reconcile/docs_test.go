package reconcile

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocsNameEveryKind holds the table of docs/recovery.md against the kinds of repairs.
func TestDocsNameEveryKind(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "recovery.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## The sweep\n")
	if !found {
		t.Fatal("docs/recovery.md has no section The sweep")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(row[1], -1) {
			got = append(got, word[1])
		}
	}
	for _, kind := range Kinds() {
		want = append(want, string(kind))
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds of repairs (-code +docs/recovery.md):\n%s", diff)
	}
}
