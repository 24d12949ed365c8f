package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

func itoa(i int) string { return strconv.Itoa(i) }

var (
	// logs matches code whose changes nothing but a log, a metric or a report for people shows.
	logs = regexp.MustCompile(`\.Log\b|\blog\.|\.Msg\(|Ignored\{|(?i:metric|\.publish\(|explain|detail)|` +
		`\.Inc\(|\.Observe\(`)
	// sends matches calls of a shell that another actor notices.
	sends = regexp.MustCompile(`^(Send|Request|RequestWithCustomSender|Respond|Forward|Watch|Unwatch|Stop|Poison)$`)
	// emits matches calls that add an effect or an event of a machine.
	emits = regexp.MustCompile(`^(emit|add|raise|send|effect|shift|push)$`)
	// releases matches calls that end or forget something.
	releases = regexp.MustCompile(`^(?i:release|unpin|free|unlock|unhold|cancel|close|stop|drop|abort|forget|` +
		`remove|clear|end|delete|unwatch|revoke|evict|abandon|expire|unreserve|unlease)`)
	// numbers matches operands that order or identify attempts.
	numbers = regexp.MustCompile(`(?i)(term|incarnation|attempt|revision|digest|number|epoch|version|lease|step|id|` +
		`actor)(\(\))?$`)
)

// effects finds the changes to a list of effects: one is dropped, or two are swapped.
func (f *finder) effects(lit *ast.CompositeLit) {
	array, ok := lit.Type.(*ast.ArrayType)
	if !ok || f.text(array) != "[]Effect" {
		return
	}
	for i, e := range lit.Elts {
		if logs.MatchString(f.text(e)) {
			continue
		}
		f.add(dropEffect, lit, "mutant.Without(#, "+itoa(i)+", ", ")", "drop effect %s", f.short(e))
		if i+1 < len(lit.Elts) {
			f.add(swap, lit, "mutant.Swapped(#, "+itoa(i)+", ", ")", "swap effects %s and %s",
				f.short(e), f.short(lit.Elts[i+1]))
		}
	}
}

// check finds the changes to a condition under which a function does no more.
func (f *finder) check(s *ast.IfStmt) {
	if s.Else == nil && len(s.Body.List) > 0 && leaves(s.Body.List[len(s.Body.List)-1]) &&
		!logs.MatchString(f.text(s.Cond)) && !strings.Contains(f.text(s.Cond), "err != nil") {
		f.add(dropCheck, s.Cond, "mutant.And(#, ", ")", "drop the check of %s", f.short(s.Cond))
	}
	b, ok := s.Cond.(*ast.BinaryExpr)
	if !ok || b.Op != token.LAND && b.Op != token.LOR {
		return
	}
	for _, half := range []ast.Expr{b.X, b.Y} {
		before := "mutant.Or(#, "
		if b.Op == token.LOR {
			before = "mutant.And(#, "
		}
		f.add(dropCheck, half, before, ")", "drop %s of %s", f.short(half), f.short(b))
	}
}

func leaves(s ast.Stmt) bool {
	switch s.(type) {
	case *ast.ReturnStmt, *ast.BranchStmt:
		return true
	}
	return false
}

// comparison finds the changes to a comparison of terms, incarnations, attempts or revisions.
func (f *finder) comparison(b *ast.BinaryExpr) {
	switch b.Op {
	case token.EQL, token.NEQ, token.LSS, token.LEQ, token.GTR, token.GEQ:
	default:
		return
	}
	if !numbers.MatchString(f.text(b.X)) && !numbers.MatchString(f.text(b.Y)) || f.text(b.Y) == "nil" {
		return
	}
	f.add(acceptStale, b, "mutant.Or(#, ", ")", "%s always holds", f.short(b))
	f.add(acceptStale, b, "mutant.And(#, ", ")", "%s never holds", f.short(b))
}

// statements finds the changes to a list of statements.
func (f *finder) statements(list []ast.Stmt) {
	for i, s := range list {
		k, ok := f.kindOf(s)
		if !ok {
			continue
		}
		f.add(k, s, "if !mutant.On(#) { ", " }", "drop %s", f.short(s))
		if i+1 < len(list) {
			if next, ok := f.kindOf(list[i+1]); ok && k != dropRelease && next != dropRelease {
				other := f.text(list[i+1]) + "; " + f.text(s)
				f.addSpan(swap, s.Pos(), list[i+1].End(), "if mutant.On(#) { "+inOneLine(other)+" } else { ", " }",
					"swap %s and %s", f.short(s), f.short(list[i+1]))
			}
		}
	}
}

// inOneLine puts a statement into one line if that is possible; otherwise the lines of what follows
// are counted wrong in messages of the compiler.
func inOneLine(s string) string {
	if strings.Contains(s, "//") || strings.Contains(s, "func(") {
		return s
	}
	return spaces.ReplaceAllString(s, " ")
}

// kindOf returns the kind of change that the lack of a statement is. It returns false if the
// statement is not part of a protocol.
func (f *finder) kindOf(s ast.Stmt) (kind, bool) {
	if logs.MatchString(f.text(s)) {
		return "", false
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if !ok {
			return "", false
		}
		name, of := calledName(call, f)
		switch {
		case strings.HasSuffix(of, "mu"):
			return "", false
		case of == "ctx" && sends.MatchString(name):
			return dropSend, true
		case emits.MatchString(name) && strings.HasPrefix(f.path, "core/"):
			return dropEffect, true
		case releases.MatchString(name):
			return dropRelease, true
		}
	case *ast.AssignStmt:
		if s.Tok != token.ASSIGN || len(s.Rhs) != 1 {
			return "", false
		}
		if call, ok := s.Rhs[0].(*ast.CallExpr); ok && len(call.Args) > 0 {
			name, _ := calledName(call, f)
			to := f.text(s.Lhs[0])
			if name == "append" && strings.HasSuffix(to, "effects") && f.text(call.Args[0]) == to {
				return dropEffect, true
			}
			return "", false
		}
		if v := f.text(s.Rhs[0]); v == "nil" || strings.HasSuffix(v, "{}") && !strings.HasPrefix(v, "func") {
			return dropRelease, true
		}
	}
	return "", false
}

// calledName returns the name of the called function, and the expression that it is selected from.
func calledName(call *ast.CallExpr, f *finder) (name, of string) {
	switch fun := call.Fun.(type) {
	case *ast.Ident:
		return fun.Name, ""
	case *ast.SelectorExpr:
		return fun.Sel.Name, f.text(fun.X)
	}
	return "", ""
}
