package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// mood is how a row is meant to be taken.
type mood int

const (
	well mood = iota
	uneasy
	bad
)

// cell is what is shown, and what it is sorted by where that is a number.
type cell struct {
	text   string
	number float64
	share  float64 // of a bar; text stands after it
}

// row is a thing. What it says at its end, in words, has a column of its own.
type row struct {
	cells []cell
	mood  mood
}

// section is one table.
type section struct {
	columns []column
	rows    []row
}

type column struct {
	name    string
	numeric bool // to the right, and the largest first
	bar     bool
}

func word(s string) cell           { return cell{text: s} }
func number(n float64) cell        { return cell{text: short(n), number: n} }
func percent(part float64) cell    { return cell{text: fmt.Sprintf("%.0f%%", 100*part), number: part} }
func enumName(name, p string) cell { return word(strings.ToLower(strings.TrimPrefix(name, p))) }

// short writes a number in at most five characters, up to a thousand millions.
func short(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%.1fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}

// order is what a section is sorted by.
type order struct {
	column  int
	reverse bool
}

// arranged returns the rows that match a filter, in an order; what is equal stays as it was.
func (t section) arranged(by order, filter string) []row {
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
