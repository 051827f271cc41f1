package cases

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"
)

// done are the files of cases in ../shared/cases of which every case must have a test.
var done = []string{
	"a-gang-deadlock.md", "b-gang-quorum.md", "c-podgroup-status.md", "d-reserve-bind.md", "e-outlived.md", "f-overcommit.md", "g-containers.md", "h-restart.md",
	"i-nodes-cards.md", "j-malformed.md", "k-in-node.md", "l-fabric.md", "m-spread.md", "n-requeue-preemption.md", "o-scale.md",
}

var (
	row      = regexp.MustCompile("^\\| (B[0-9]{3}) \\| `([^`]+)` \\| `(Test[A-Za-z0-9_]+)` \\|")
	heading  = regexp.MustCompile(`^### B([0-9]+) `)
	testCase = regexp.MustCompile(`^TestCaseB([0-9]{2,3})(\D|$)`)
)

type entry struct{ number, folder, test string }

var update = flag.Bool("update", false, "write the table of README.md anew from the tests' names")

// TestListIsTrue holds README.md against the tree, in both directions.
func TestListIsTrue(t *testing.T) {
	root := filepath.Join("..", "..")
	if *update {
		rewrite(t, caseTests(t, root))
	}
	listed := map[entry]bool{}
	for _, line := range lines(t, "README.md") {
		if m := row.FindStringSubmatch(line); m != nil {
			listed[entry{m[1], m[2], m[3]}] = true
		}
	}
	exist := caseTests(t, root)
	for e := range listed {
		if !exist[e] && !hasTest(t, filepath.Join(root, e.folder), e.test) {
			t.Errorf("README.md lists %s as %s in %s, which does not exist", e.number, e.test, e.folder)
		}
	}
	for _, e := range sorted(exist) {
		if !listed[e] {
			t.Errorf("README.md lacks the row: | %s | `%s` | `%s` |", e.number, e.folder, e.test)
		}
	}
}

// TestEveryCaseHasATest needs the files of cases.
func TestEveryCaseHasATest(t *testing.T) {
	folder := filepath.Join("..", "..", "..", "shared", "cases")
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("no files of cases beside the checkout: %v", err)
	}
	covered := map[string]bool{}
	for _, line := range lines(t, "README.md") {
		if m := row.FindStringSubmatch(line); m != nil {
			covered[m[1]] = true
		}
	}
	for _, file := range done {
		for _, line := range lines(t, filepath.Join(folder, file)) {
			if m := heading.FindStringSubmatch(line); m != nil && !covered[number(m[1])] {
				t.Errorf("%s: case %s has no test", file, number(m[1]))
			}
		}
	}
}

// number pads to three digits: B71 in a heading is B071 in a name.
func number(digits string) string { return "B" + strings.Repeat("0", 3-len(digits)) + digits }

// caseTests finds every test function whose name carries a number.
func caseTests(t *testing.T, root string) map[entry]bool {
	t.Helper()
	found := map[entry]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "bin" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, name := range functions(t, path) {
			if m := testCase.FindStringSubmatch(name); m != nil {
				found[entry{number(m[1]), filepath.ToSlash(folder), name}] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// rewrite keeps the text above the table and writes the rows.
func rewrite(t *testing.T, found map[entry]bool) {
	t.Helper()
	const rule = "| --- | --- | --- |\n"
	text := strings.Join(lines(t, "README.md"), "\n")
	head, _, ok := strings.Cut(text, rule)
	if !ok {
		t.Fatal("README.md has no table")
	}
	var b strings.Builder
	b.WriteString(head + rule)
	for _, e := range sorted(found) {
		fmt.Fprintf(&b, "| %s | `%s` | `%s` |\n", e.number, e.folder, e.test)
	}
	if err := os.WriteFile("README.md", []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, f := range functions(t, file) {
			if f == name {
				return true
			}
		}
	}
	return false
}

func functions(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, decl := range file.Decls {
		if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
			names = append(names, f.Name.Name)
		}
	}
	return names
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(data), "\n")
}

func sorted(set map[entry]bool) []entry {
	out := make([]entry, 0, len(set))
	for e := range set {
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool {
		a, b := out[i], out[j]
		return a.number+a.folder+a.test < b.number+b.folder+b.test
	})
	return out
}
