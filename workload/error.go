package workload

import (
	"fmt"
	"strings"
)

// Error is an invalid line of a trace, or an invalid value of a Load.
type Error struct {
	File    string // empty for a Load
	Line    int    // from 1; 0: the whole file
	Key     string // the column or key; empty: the whole line
	Problem string
	Remedy  string
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	if b.Len() > 0 {
		b.WriteString(": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key + " ")
	}
	return b.String() + e.Problem + "; " + e.Remedy
}
