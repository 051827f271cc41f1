package manifests

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func recoverySection(t *testing.T, title string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "recovery.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## "+title+"\n")
	if !found {
		t.Fatalf("docs/recovery.md has no section %s", title)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// firstColumn returns the code words of the first column of the section's tables.
func firstColumn(section string) []string {
	var words []string
	for _, line := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for _, word := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line[1], -1) {
			words = append(words, word[1])
		}
	}
	slices.Sort(words)
	return words
}

// Metrics are declared in one package, each by its name in quotes.
func TestRecoveryNamesEveryMetric(t *testing.T) {
	declared := regexp.MustCompile(`(?:counter|counterVec|desc)\("([a-z_]+)"|Name: "([a-z_]+)"`)
	var want []string
	for _, file := range []string{"metrics.go", "state.go"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "pkg", "metrics", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range declared.FindAllStringSubmatch(string(text), -1) {
			want = append(want, match[1]+match[2])
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, firstColumn(recoverySection(t, "Metrics"))); diff != "" {
		t.Errorf("metrics (-code +docs/recovery.md):\n%s", diff)
	}
}
