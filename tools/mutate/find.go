package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// changesIn returns all changes to the files in a folder, in a deterministic order.
func changesIn(folder string) (all []change, err error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	paths = slices.DeleteFunc(paths, func(p string) bool {
		return strings.HasSuffix(p, "_test.go") || strings.HasSuffix(p, ".pb.go") || filepath.Base(p) == "doc.go"
	})
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s has no Go files", folder)
	}
	var files []*finder
	fields := make(map[string][]string)
	for _, path := range paths {
		f := &finder{path: path, fset: token.NewFileSet(), fields: fields}
		if f.source, err = os.ReadFile(path); err != nil {
			return nil, err
		}
		if f.file, err = parser.ParseFile(f.fset, path, f.source, parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		f.structs()
		files = append(files, f)
	}
	for _, f := range files {
		f.find()
		all = append(all, f.found...)
	}
	return all, nil
}

// finder finds the changes to one file.
type finder struct {
	path   string
	source []byte
	fset   *token.FileSet
	file   *ast.File
	fields map[string][]string // of the structs of the folder
	found  []change
}

// structs records the fields of the file's structs.
func (f *finder) structs() {
	ast.Inspect(f.file, func(n ast.Node) bool {
		t, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := t.Type.(*ast.StructType); ok {
			for _, field := range s.Fields.List {
				for _, name := range field.Names {
					f.fields[t.Name.Name] = append(f.fields[t.Name.Name], name.Name)
				}
			}
		}
		return true
	})
}

func (f *finder) offset(p token.Pos) int { return f.fset.Position(p).Offset }

// text returns the source of a node.
func (f *finder) text(n ast.Node) string {
	return string(f.source[f.offset(n.Pos()):f.offset(n.End())])
}

var spaces = regexp.MustCompile(`\s+`)

// short returns the source of a node in one line.
func (f *finder) short(n ast.Node) string {
	s := []rune(spaces.ReplaceAllString(f.text(n), " "))
	if len(s) > 60 {
		return string(s[:59]) + "…"
	}
	return string(s)
}

// add records a change that puts text before and after a node.
func (f *finder) add(k kind, n ast.Node, before, after, format string, args ...any) {
	f.addSpan(k, n.Pos(), n.End(), before, after, format, args...)
}

func (f *finder) addSpan(k kind, from, to token.Pos, before, after, format string, args ...any) {
	f.found = append(f.found, change{path: f.path, line: f.fset.Position(from).Line, last: f.fset.Position(to).Line,
		kind: k, what: fmt.Sprintf(format, args...), edits: around(f.offset(from), f.offset(to), before, after)})
}

// find finds all changes to the file.
func (f *finder) find() {
	for _, decl := range f.file.Decls {
		if d, ok := decl.(*ast.FuncDecl); ok && d.Name.Name == "String" {
			continue
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			switch s := n.(type) {
			case *ast.CompositeLit:
				f.table(s)
				f.effects(s)
			case *ast.IfStmt:
				f.check(s)
			case *ast.BinaryExpr:
				f.comparison(s)
			case *ast.BlockStmt:
				f.statements(s.List)
			case *ast.CaseClause:
				f.statements(s.Body)
			}
			return true
		})
	}
}
