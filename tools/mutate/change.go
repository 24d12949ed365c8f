package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// change is one small change to a file: the number of a place in it, and what is changed there.
type change struct {
	path   string
	line   int
	number int // number of the change, in the order in which walk visits the file
	what   string
}

func (c change) String() string { return fmt.Sprintf("%s:%d %s", c.path, c.line, c.what) }

// changesIn returns all changes to the files in folders, in a deterministic order.
func changesIn(folders []string) (all []change, err error) {
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			return nil, err
		}
		if len(files) == 0 {
			return nil, fmt.Errorf("%s has no Go files", folder)
		}
		slices.Sort(files)
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
				continue
			}
			fset := token.NewFileSet()
			file, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
			if err != nil {
				return nil, err
			}
			walk(fset, file, func(n int, at token.Pos, what string, _ func()) {
				all = append(all, change{path, fset.Position(at).Line, n, what})
			})
		}
	}
	return all, nil
}

// apply returns the changed file.
func (c change) apply() ([]byte, error) {
	source, err := os.ReadFile(c.path)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, c.path, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var do func()
	walk(fset, file, func(n int, _ token.Pos, _ string, apply func()) {
		if n == c.number {
			do = apply
		}
	})
	do()
	var out bytes.Buffer
	if err := format.Node(&out, fset, file); err != nil {
		return nil, fmt.Errorf("%s: %w", c, err)
	}
	return out.Bytes(), nil
}

// walk calls visit for each change to a file, with its number and a function that applies it.
func walk(fset *token.FileSet, file *ast.File, visit func(number int, at token.Pos, what string, apply func())) {
	n := 0
	report := func(at token.Pos, what string, apply func()) {
		visit(n, at, what, apply)
		n++
	}
	text := func(node ast.Node) string {
		var b bytes.Buffer
		_ = printer.Fprint(&b, fset, node) // a buffer takes all
		first, _, more := strings.Cut(b.String(), "\n")
		if more {
			first += " ..."
		}
		return first
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch s := node.(type) {
		case *ast.IfStmt:
			cond := s.Cond
			report(s.Pos(), "negate "+text(cond), func() {
				s.Cond = &ast.UnaryExpr{Op: token.NOT, X: &ast.ParenExpr{X: cond}}
			})
			if b, ok := cond.(*ast.BinaryExpr); ok && (b.Op == token.LAND || b.Op == token.LOR) {
				report(s.Pos(), "keep only "+text(b.X)+" of "+text(b), func() { s.Cond = b.X })
				report(s.Pos(), "keep only "+text(b.Y)+" of "+text(b), func() { s.Cond = b.Y })
			}
		case *ast.BinaryExpr:
			if other, ok := comparisons[s.Op]; ok {
				report(s.Pos(), fmt.Sprintf("%s becomes %s in %s", s.Op, other, text(s)), func() { s.Op = other })
			}
		case *ast.BlockStmt:
			statements(s.List, func(list []ast.Stmt) { s.List = list }, text, report)
		case *ast.CaseClause:
			statements(s.Body, func(list []ast.Stmt) { s.Body = list }, text, report)
		}
		return true
	})
}

var comparisons = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.EQL: token.NEQ, token.NEQ: token.EQL,
}

// statements reports the changes to a list of statements: one is removed, or two are swapped.
func statements(list []ast.Stmt, set func([]ast.Stmt), text func(ast.Node) string,
	report func(token.Pos, string, func()),
) {
	for i, s := range list {
		switch s := s.(type) {
		case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt:
			report(s.Pos(), "leave out "+text(s), func() { set(slices.Delete(slices.Clone(list), i, i+1)) })
		case *ast.AssignStmt:
			if s.Tok == token.ASSIGN {
				report(s.Pos(), "leave out "+text(s), func() { set(slices.Delete(slices.Clone(list), i, i+1)) })
			}
		}
		if i+1 < len(list) && isCall(s) && isCall(list[i+1]) {
			report(s.Pos(), "swap "+text(s)+" with the next", func() {
				swapped := slices.Clone(list)
				swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
				set(swapped)
			})
		}
	}
}

func isCall(s ast.Stmt) bool { _, ok := s.(*ast.ExprStmt); return ok }
