package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
)

const (
	module = "github.com/gputopology/gpu-topology-scheduler"

	maxLines     = 400
	maxTestLines = 800
)

// bannedNames are package names that say nothing about what is inside.
var bannedNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "managers", "misc"}

// rule is one row of the table. Imports are written as in Go, this module's without the module's path: "pkg/topology".
// A pattern that ends in "/..." also matches everything below.
type rule struct {
	imports []string // allowed in product code
	tests   []string // allowed in _test.go files too
	noStd   []string // standard library packages that product code may not import
	why     string   // why nothing else is allowed
}

// separation says that nothing which from links, directly or not, may be to.
type separation struct {
	from string // package of this module, "/..." allowed
	to   string // package of any module, "/..." allowed
	why  string
}

// source is one package as the check sees it.
type source struct {
	files       []file
	packageName string
	documented  bool // a package comment in doc.go, or in any file of a command
}

type file struct {
	path     string
	isTest   bool
	lines    int
	imports  []string // of this module, without its path, and of others
	standard []string // of the standard library
}

// check reads the Go files below root and returns every breach of the rules, sorted.
func check(root fs.FS, rules map[string]rule, separations []separation) ([]string, error) {
	sources, err := readSources(root)
	if err != nil {
		return nil, err
	}
	var breaches []string
	for dir, src := range sources {
		breaches = append(breaches, checkHouse(dir, src)...)
		row, ok := rules[dir]
		if !ok {
			breaches = append(breaches, fmt.Sprintf("%s: not in the table of test/arch: add a row that says what it may import", dir))
			continue
		}
		breaches = append(breaches, checkImports(dir, src, row)...)
	}
	for dir, row := range rules {
		if _, ok := sources[dir]; !ok {
			breaches = append(breaches, fmt.Sprintf("%s: in the table of test/arch, but there is no such package", dir))
		}
		if row.why == "" {
			breaches = append(breaches, fmt.Sprintf("%s: its row in the table of test/arch gives no reason", dir))
		}
	}
	breaches = append(breaches, checkSeparations(sources, separations)...)
	sort.Strings(breaches)
	return breaches, nil
}

// checkHouse applies what holds for every package.
func checkHouse(dir string, src *source) []string {
	var breaches []string
	if !src.documented {
		breaches = append(breaches, fmt.Sprintf("%s: needs a doc.go with a package comment", dir))
	}
	for _, name := range []string{src.packageName, path.Base(dir)} {
		if slices.Contains(bannedNames, name) {
			breaches = append(breaches, fmt.Sprintf("%s: the name %q says nothing about the package", dir, name))
			break
		}
	}
	for _, f := range src.files {
		limit := maxLines
		if f.isTest {
			limit = maxTestLines
		}
		if f.lines > limit {
			breaches = append(breaches, fmt.Sprintf("%s: %d lines, the limit is %d", f.path, f.lines, limit))
		}
	}
	return breaches
}

// checkImports compares each file's imports with the package's row.
func checkImports(dir string, src *source, row rule) []string {
	var breaches []string
	for _, f := range src.files {
		banned := func(imported string) bool { return !f.isTest && matchesAny(row.noStd, imported) }
		foreign := func(imported string) bool {
			switch {
			case matchesAny(row.imports, imported):
				return false
			case f.isTest: // the package itself is what an external test imports
				return imported != dir && !matchesAny(row.tests, imported)
			}
			return true
		}
		for _, imported := range slices.Concat(selected(f.standard, banned), selected(f.imports, foreign)) {
			breaches = append(breaches, fmt.Sprintf("%s: may not import %s: %s", f.path, imported, row.why))
		}
	}
	return breaches
}

func selected(names []string, match func(string) bool) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !match(name) })
}

// checkSeparations follows product imports inside the module; the first path found is named.
func checkSeparations(sources map[string]*source, separations []separation) []string {
	var breaches []string
	for _, s := range separations {
		for dir := range sources {
			if !matches(s.from, dir) {
				continue
			}
			if trail := findImport(sources, dir, s.to, map[string]bool{}); trail != nil {
				breaches = append(breaches, fmt.Sprintf("%s: may not link %s: %s", strings.Join(trail, " -> "), s.to, s.why))
			}
		}
	}
	return breaches
}

// findImport returns the packages from dir to the first one that matches pattern, or nil.
func findImport(sources map[string]*source, dir, pattern string, seen map[string]bool) []string {
	src, ok := sources[dir]
	if !ok || seen[dir] {
		return nil
	}
	seen[dir] = true
	for _, f := range src.files {
		if f.isTest {
			continue
		}
		for _, imported := range f.imports {
			if matches(pattern, imported) {
				return []string{dir, imported}
			}
			if trail := findImport(sources, imported, pattern, seen); trail != nil {
				return append([]string{dir}, trail...)
			}
		}
	}
	return nil
}

// readSources parses the import clauses of every Go file of the module.
func readSources(root fs.FS) (map[string]*source, error) {
	sources := map[string]*source{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isSkipped(root, name):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		dir := path.Dir(name)
		if sources[dir] == nil {
			sources[dir] = &source{}
		}
		return sources[dir].read(root, name)
	})
	return sources, err
}

// isSkipped is true for folders that the go command passes over and for modules inside this one.
func isSkipped(root fs.FS, dir string) bool {
	if dir == "." {
		return false
	}
	base := path.Base(dir)
	if base == "testdata" || base == "bin" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") {
		return true
	}
	_, err := fs.Stat(root, path.Join(dir, "go.mod"))
	return err == nil
}

func (s *source) read(root fs.FS, name string) error {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	f := file{path: name, isTest: strings.HasSuffix(name, "_test.go")}
	if !ast.IsGenerated(parsed) {
		f.lines = bytes.Count(text, []byte("\n"))
	}
	for _, clause := range parsed.Imports {
		imported, err := strconv.Unquote(clause.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: import %s: %w", name, clause.Path.Value, err)
		}
		// The go command's own rule: only the standard library's paths have no dot in their first element.
		if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
			f.imports = append(f.imports, strings.TrimPrefix(imported, module+"/"))
		} else {
			f.standard = append(f.standard, imported)
		}
	}
	s.files = append(s.files, f)
	if !f.isTest {
		s.packageName = parsed.Name.Name
	}
	if path.Base(name) == "doc.go" || !f.isTest && parsed.Name.Name == "main" {
		s.documented = s.documented || parsed.Doc.Text() != ""
	}
	return nil
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, name) })
}

func matches(pattern, name string) bool {
	if tree, ok := strings.CutSuffix(pattern, "/..."); ok {
		return name == tree || strings.HasPrefix(name, tree+"/")
	}
	return name == pattern
}
