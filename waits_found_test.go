package troupe

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strings"
)

// testUnit is the tests of a folder. Only names distinguish declarations. The making of a value
// stands for calls of all methods of its type, and of the types of its fields.
type testUnit struct {
	funcs   map[string][]testDecl
	methods map[string][]testDecl // also those of the fields, by the name of the type
	roots   []testDecl            // what runs without being called
}

func newTestUnit() *testUnit {
	return &testUnit{funcs: make(map[string][]testDecl), methods: make(map[string][]testDecl)}
}

// testDecl is a piece of code in a file.
type testDecl struct {
	fset    *token.FileSet
	imports map[string]string // path by local name
	code    ast.Node
	params  *ast.FieldList
}

// add adds a file. All that a package for tests exports is a root.
func (u *testUnit) add(fset *token.FileSet, file *ast.File, helps bool) {
	in := testDecl{fset: fset, imports: importNames(file)}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.GenDecl:
			in.code, in.params = decl, nil
			if decl.Tok == token.VAR {
				u.roots = append(u.roots, in)
			}
			u.addFields(in, decl)
		case *ast.FuncDecl:
			if decl.Body == nil {
				continue
			}
			in.code, in.params = decl.Body, decl.Type.Params
			name := decl.Name.Name
			if decl.Recv == nil {
				u.funcs[name] = append(u.funcs[name], in)
			} else {
				of := typeName(decl.Recv.List[0].Type)
				u.methods[of] = append(u.methods[of], in)
			}
			if decl.Recv == nil && isRoot(name) || helps && decl.Name.IsExported() {
				u.roots = append(u.roots, in)
			}
		}
	}
}

// addFields makes the fields of struct types part of the types, as if each type had a method that
// declares a variable for each field.
func (u *testUnit) addFields(in testDecl, decl *ast.GenDecl) {
	for _, spec := range decl.Specs {
		named, ok := spec.(*ast.TypeSpec)
		if !ok {
			continue
		}
		fields, ok := named.Type.(*ast.StructType)
		if !ok {
			continue
		}
		variables := &ast.GenDecl{Tok: token.VAR}
		for _, f := range fields.Fields.List {
			variables.Specs = append(variables.Specs, &ast.ValueSpec{Type: f.Type})
		}
		in.code = variables
		u.methods[named.Name.Name] = append(u.methods[named.Name.Name], in)
	}
}

func importNames(file *ast.File) map[string]string {
	names := make(map[string]string)
	for _, spec := range file.Imports {
		to := strings.Trim(spec.Path.Value, `"`)
		name := path.Base(to)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = to
	}
	return names
}

// typeName returns the name of a type of the same package, without pointers, lists and type arguments.
func typeName(of ast.Expr) string {
	for {
		switch at := of.(type) {
		case *ast.StarExpr:
			of = at.X
		case *ast.ArrayType:
			of = at.Elt
		case *ast.MapType:
			of = at.Value
		case *ast.IndexExpr:
			of = at.X
		case *ast.IndexListExpr:
			of = at.X
		case *ast.Ident:
			return at.Name
		default:
			return ""
		}
	}
}

// isRoot reports whether the go command calls a function of this name when it tests.
func isRoot(name string) bool {
	return name == "init" || slices.ContainsFunc([]string{"Test", "Fuzz", "Example"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// waits returns the uses of waitFunctions that run outside a bubble. A function that opens a bubble
// is taken to run in it entirely, since it may declare what the bubble calls.
func (u *testUnit) waits() (found []finding) {
	bubbles := u.bubbles()
	reached, visited := slices.Clone(u.roots), make(map[ast.Node]bool)
	for len(reached) > 0 {
		d := reached[0]
		reached = reached[1:]
		if visited[d.code] || d.opensBubble(bubbles) {
			continue
		}
		visited[d.code] = true
		ast.Inspect(d.code, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if what, ok := d.waitFunction(n); ok {
					at := d.fset.Position(n.Pos())
					found = append(found, finding{at.Filename, at.Line, what})
				}
			case *ast.Ident:
				reached = append(reached, u.funcs[n.Name]...)
			case *ast.CompositeLit:
				reached = append(reached, u.methods[typeName(n.Type)]...)
			case *ast.ValueSpec:
				reached = append(reached, u.methods[typeName(n.Type)]...)
			case *ast.CallExpr: // a conversion, or new
				reached = append(reached, u.methods[typeName(n.Fun)]...)
				for _, arg := range n.Args {
					reached = append(reached, u.methods[typeName(arg)]...)
				}
			}
			return true
		})
	}
	return found
}

// waitFunction returns the full name of a function in waitFunctions.
func (d testDecl) waitFunction(s *ast.SelectorExpr) (name string, ok bool) {
	pkg, isName := s.X.(*ast.Ident)
	if !isName {
		return "", false
	}
	from := d.imports[pkg.Name]
	return fmt.Sprintf("%s.%s", from, s.Sel.Name), slices.Contains(waitFunctions[from], s.Sel.Name)
}

// opensBubble reports whether a function runs something in a bubble.
func (d testDecl) opensBubble(bubbles map[string]bool) (opens bool) {
	ast.Inspect(d.code, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !opens
		}
		switch f := call.Fun.(type) {
		case *ast.Ident:
			opens = opens || bubbles[f.Name]
		case *ast.SelectorExpr:
			pkg, ok := f.X.(*ast.Ident)
			opens = opens || bubbles[f.Sel.Name] ||
				ok && d.imports[pkg.Name] == "testing/synctest" && f.Sel.Name == "Test"
		}
		return !opens
	})
	return opens
}

// bubbles returns the functions that run a function that they are given in a bubble.
func (u *testUnit) bubbles() map[string]bool {
	bubbles := make(map[string]bool)
	for grown := true; grown; {
		grown = false
		for name, decls := range u.funcs {
			for _, d := range decls {
				if !bubbles[name] && d.takesFunction() && d.opensBubble(bubbles) {
					bubbles[name], grown = true, true
				}
			}
		}
	}
	return bubbles
}

func (d testDecl) takesFunction() bool {
	return d.params != nil && slices.ContainsFunc(d.params.List, func(f *ast.Field) bool {
		_, ok := f.Type.(*ast.FuncType)
		return ok
	})
}
