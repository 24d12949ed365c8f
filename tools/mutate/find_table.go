package main

import (
	"go/ast"
	"slices"
	"strings"
)

// defaultFields are the field names, in order, of a row type declared in another package.
var defaultFields = []string{"from", "on", "when", "to", "do", "does"}

// table finds the changes to a transition table: a row or its guard is dropped, or its next state
// is changed.
func (f *finder) table(lit *ast.CompositeLit) {
	name, ok := rowType(lit.Type)
	if !ok {
		return
	}
	fields := f.fields[name]
	if fields == nil {
		fields = defaultFields
	}
	var next []string // all next states
	for _, e := range lit.Elts {
		if to := cell(e, fields, "to"); to != nil && !unchanged(f.text(to)) {
			next = append(next, f.text(to))
		}
	}
	for i, e := range lit.Elts {
		row, ok := e.(*ast.CompositeLit)
		if !ok || len(row.Elts) < 4 {
			continue
		}
		at := f.fset.Position(row.Pos()).Line
		f.addRow(dropRow, lit, at, "mutant.WithoutRow(#, "+itoa(i)+", ", "drop row %s", f.short(row))
		if when := cell(e, fields, "when"); when != nil && !always(f.text(when)) {
			f.addRow(dropGuard, lit, at, "mutant.Unguarded(#, "+itoa(i)+", ", "drop guard %s of row %s",
				f.short(when), f.short(row))
		}
		to := cell(e, fields, "to")
		if to == nil || unchanged(f.text(to)) {
			continue
		}
		own := f.text(to)
		for j := range next { // the next different one
			if other := next[(i+j)%len(next)]; other != own {
				f.addRow(changeNext, lit, at, "mutant.Entering(#, "+itoa(i)+", "+other+", ", "enter %s in row %s",
					other, f.short(row))
				break
			}
		}
	}
}

// addRow records a change to a row of a table, which is in a line of the file.
func (f *finder) addRow(k kind, table ast.Node, line int, before, format string, args ...any) {
	f.add(k, table, before, ")", format, args...)
	c := &f.found[len(f.found)-1]
	c.line, c.last = line, line
}

// rowType returns the name of the type of a table's rows.
func rowType(t ast.Expr) (name string, ok bool) {
	array, ok := t.(*ast.ArrayType)
	if !ok || array.Len != nil {
		return "", false
	}
	elem := array.Elt
	switch x := elem.(type) {
	case *ast.IndexExpr:
		elem = x.X
	case *ast.IndexListExpr:
		elem = x.X
	}
	switch x := elem.(type) {
	case *ast.Ident:
		name = x.Name
	case *ast.SelectorExpr:
		name = x.Sel.Name
	}
	lower := strings.ToLower(name)
	return name, strings.HasSuffix(lower, "row") || strings.HasSuffix(lower, "transition")
}

// cell returns a field of a row, or nil.
func cell(row ast.Expr, fields []string, name string) ast.Expr {
	lit, ok := row.(*ast.CompositeLit)
	if !ok {
		return nil
	}
	for i, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, name) {
				return kv.Value
			}
		} else if i < len(fields) && strings.EqualFold(fields[i], name) {
			return e
		}
	}
	return nil
}

// noGuards are the names of guards that always hold.
var noGuards = []string{"nil", "always", "pinAlways", "anyTime", "anyRecord"}

func always(guard string) bool {
	return slices.Contains(noGuards, guard) || strings.HasSuffix(guard, "{}")
}

func unchanged(state string) bool {
	return slices.Contains([]string{"same", "sameState", "sameStep", "sameMemory", "sameLease"}, state)
}
