package gang

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestNoClock holds that the package takes times as values only: nothing in it may call the functions of package time
// that read the clock or wait.
func TestNoClock(t *testing.T) {
	banned := map[string]bool{
		"Now": true, "Since": true, "Until": true, "After": true, "AfterFunc": true, "Sleep": true, "Tick": true,
		"NewTicker": true, "NewTimer": true,
	}
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		read++
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file.Name(), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if spec.Path.Value == `"time"` && spec.Name != nil {
				t.Errorf("%s: imports time as %s, which hides its calls from this test", set.Position(spec.Pos()), spec.Name)
			}
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			selector, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == "time" && banned[selector.Sel.Name] {
				t.Errorf("%s: time.%s", set.Position(n.Pos()), selector.Sel.Name)
			}
			return true
		})
	}
	if read == 0 {
		t.Fatal("no source files here")
	}
}
