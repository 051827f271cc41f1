package arch

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// tidy is a module of three packages that keeps every rule.
func tidy() fstest.MapFS {
	return fstest.MapFS{
		"go.mod":                     text("module " + module),
		"pkg/core/doc.go":            text("// Package core is first.\npackage core"),
		"pkg/core/core.go":           text("package core\nimport \"math/bits\"\nvar _ = bits.Len"),
		"pkg/core/core_test.go":      text("package core_test\nimport (\n_ \"os\"\n_ \"example.com/oracle\"\n_ \"" + module + "/pkg/core\"\n)"),
		"pkg/edge/doc.go":            text("// Package edge is next.\npackage edge"),
		"pkg/edge/edge.go":           text("package edge\nimport (\n_ \"os\"\n_ \"example.com/api/v1\"\n_ \"" + module + "/pkg/core\"\n)"),
		"cmd/tool/main.go":           text("// Command tool is last.\npackage main\nimport _ \"" + module + "/pkg/edge\""),
		"pkg/core/testdata/x.go":     text("not Go"),
		"tools/go.mod":               text("module tools"),
		"tools/unknown/unknown.go":   text("package unknown"),
		"bin/unknown/unknown.go":     text("package unknown"),
		".hidden/unknown/unknown.go": text("package unknown"),
	}
}

func tidyRules() map[string]rule {
	return map[string]rule{
		"pkg/core": {tests: []string{"example.com/oracle"}, noStd: []string{"os", "net/..."}, why: "core is pure"},
		"pkg/edge": {imports: []string{"pkg/core", "example.com/api/..."}, why: "edge reads the API"},
		"cmd/tool": {imports: []string{"pkg/edge"}, why: "tool is thin"},
	}
}

func text(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }

func TestCheckFindsEachBreach(t *testing.T) {
	tests := map[string]struct {
		change      func(files fstest.MapFS, rules map[string]rule)
		separations []separation
		want        []string
	}{
		"nothing": {},
		"import of a package of this module that the row lacks": {
			change: func(files fstest.MapFS, _ map[string]rule) {
				files["cmd/tool/more.go"] = text("package main\nimport _ \"" + module + "/pkg/core\"")
			},
			want: []string{"cmd/tool/more.go: may not import pkg/core: tool is thin"},
		},
		"import of another module that the row lacks": {
			change: func(files fstest.MapFS, _ map[string]rule) {
				files["pkg/edge/more.go"] = text("package edge\nimport _ \"example.com/apiary\"")
			},
			want: []string{"pkg/edge/more.go: may not import example.com/apiary: edge reads the API"},
		},
		"test library in product code": {
			change: func(files fstest.MapFS, _ map[string]rule) {
				files["pkg/core/more.go"] = text("package core\nimport _ \"example.com/oracle\"")
			},
			want: []string{"pkg/core/more.go: may not import example.com/oracle: core is pure"},
		},
		"banned part of the standard library": {
			change: func(files fstest.MapFS, _ map[string]rule) {
				files["pkg/core/more.go"] = text("package core\nimport _ \"net/http\"")
			},
			want: []string{"pkg/core/more.go: may not import net/http: core is pure"},
		},
		"package without a row": {
			change: func(_ fstest.MapFS, rules map[string]rule) { delete(rules, "pkg/core") },
			want:   []string{"pkg/core: not in the table of test/arch: add a row that says what it may import"},
		},
		"row without a package": {
			change: func(_ fstest.MapFS, rules map[string]rule) { rules["pkg/gone"] = rule{why: "was here"} },
			want:   []string{"pkg/gone: in the table of test/arch, but there is no such package"},
		},
		"row without a reason": {
			change: func(_ fstest.MapFS, rules map[string]rule) { rules["cmd/tool"] = rule{imports: []string{"pkg/edge"}} },
			want:   []string{"cmd/tool: its row in the table of test/arch gives no reason"},
		},
		"package without doc.go": {
			change: func(files fstest.MapFS, _ map[string]rule) { delete(files, "pkg/core/doc.go") },
			want:   []string{"pkg/core: needs a doc.go with a package comment"},
		},
		"doc.go without a comment": {
			change: func(files fstest.MapFS, _ map[string]rule) { files["pkg/core/doc.go"] = text("package core") },
			want:   []string{"pkg/core: needs a doc.go with a package comment"},
		},
		"comment of a package outside doc.go": {
			change: func(files fstest.MapFS, _ map[string]rule) {
				files["pkg/core/doc.go"] = text("package core")
				files["pkg/core/more.go"] = text("// Package core is here.\npackage core")
			},
			want: []string{"pkg/core: needs a doc.go with a package comment"},
		},
		"name that says nothing": {
			change: func(files fstest.MapFS, rules map[string]rule) {
				files["pkg/util/doc.go"] = text("// Package util is all sorts.\npackage util")
				rules["pkg/util"] = rule{why: "none"}
			},
			want: []string{`pkg/util: the name "util" says nothing about the package`},
		},
		"file too long": {
			change: func(files fstest.MapFS, _ map[string]rule) {
				files["pkg/core/long.go"] = text("package core" + strings.Repeat("\n", maxLines+1))
				files["pkg/core/long_test.go"] = text("package core" + strings.Repeat("\n", maxTestLines+1))
			},
			want: []string{
				"pkg/core/long.go: 401 lines, the limit is 400",
				"pkg/core/long_test.go: 801 lines, the limit is 800",
			},
		},
		"file of exactly the limit, and a longer generated one": {
			change: func(files fstest.MapFS, _ map[string]rule) {
				files["pkg/core/long.go"] = text("package core" + strings.Repeat("\n", maxLines))
				files["pkg/core/made.go"] = text("// Code generated by a tool. DO NOT EDIT.\npackage core" + strings.Repeat("\n", 2*maxLines))
			},
		},
		"program that links what it must not, two steps away": {
			separations: []separation{{from: "cmd/...", to: "example.com/api/...", why: "tool stays small"}},
			want:        []string{"cmd/tool -> pkg/edge -> example.com/api/v1: may not link example.com/api/...: tool stays small"},
		},
		"separation of test code": {
			separations: []separation{{from: "pkg/core", to: "example.com/oracle", why: "only tests use it"}},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			files, rules := tidy(), tidyRules()
			if tc.change != nil {
				tc.change(files, rules)
			}
			got, err := check(files, rules, tc.separations)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckReportsUnreadableGo(t *testing.T) {
	files := tidy()
	files["pkg/core/broken.go"] = text("package")
	if _, err := check(files, tidyRules(), nil); err == nil || !strings.Contains(err.Error(), "pkg/core/broken.go") {
		t.Errorf("check() error = %v, want one that names pkg/core/broken.go", err)
	}
}
