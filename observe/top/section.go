package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"troupe/core/units"
)

// severity is the condition that a row shows.
type severity int

const (
	normal severity = iota
	warning
	critical
)

// cell is the text of one table cell. A numeric column is sorted by number.
type cell struct {
	text   string
	number float64
	share  float64 // of a bar, which precedes the text
}

// row is a line of a section. Its last cell is a note.
type row struct {
	cells    []cell
	severity severity
}

// section is one table.
type section struct {
	columns []column
	rows    []row
}

type column struct {
	name    string
	numeric bool // right-aligned, and largest first
	bar     bool
}

func word(s string) cell           { return cell{text: s} }
func number(n float64) cell        { return cell{text: compact(n), number: n} }
func percent(part float64) cell    { return cell{text: fmt.Sprintf("%.0f%%", 100*part), number: part} }
func bytes(n uint64) cell          { return cell{text: units.FormatBytes(int64(n)), number: float64(n)} }
func enumName(name, p string) cell { return word(strings.ToLower(strings.TrimPrefix(name, p))) }

// compact formats a number in at most five characters, up to one billion.
func compact(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}

// order is the sort order of a section.
type order struct {
	column  int
	reverse bool
}

// visible returns the rows that match a filter, in the given order. Equal rows keep their order.
func (t section) visible(by order, filter string) []row {
	var rows []row
	for _, r := range t.rows {
		if slices.ContainsFunc(
			r.cells,
			func(c cell) bool { return strings.Contains(strings.ToLower(c.text), strings.ToLower(filter)) },
		) {
			rows = append(rows, r)
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		x, y := a.cells[by.column], b.cells[by.column]
		d := cmp.Compare(x.text, y.text)
		if t.columns[by.column].numeric {
			d = cmp.Compare(y.number, x.number)
		}
		if by.reverse {
			return -d
		}
		return d
	})
	return rows
}
