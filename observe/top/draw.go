package top

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"
	"charm.land/lipgloss/v2/table"
)

// distribute reports whether blank lines separate the sections, and returns the number of lines for
// the rows of each.
func (m Model) distribute(rows [][]row) (spaced bool, room []int) {
	want := make([]int, len(rows))
	for i, r := range rows {
		want[i] = len(r)
	}
	if m.height == 0 {
		return true, want
	}
	left := m.height - frame - len(m.alarm()) - len(rows)
	if spaced = left >= 3*len(rows); spaced {
		left -= len(rows)
	}
	return spaced, share(left, want, m.focus)
}

// share deals out lines one by one, and two at a time to the focused section, until all rows fit or
// no line is left.
func share(left int, want []int, focus int) []int {
	got := make([]int, len(want))
	for left > 0 && !slices.Equal(got, want) {
		for i := range want {
			turns := 1
			if i == focus {
				turns = 2
			}
			for ; turns > 0 && left > 0 && got[i] < want[i]; turns-- {
				got[i]++
				left--
			}
		}
	}
	return got
}

// maxOffset returns how many rows the focused section can be scrolled.
func (m Model) maxOffset() int {
	_, rows := m.visible()
	_, room := m.distribute(rows)
	if here := room[m.focus]; here < len(rows[m.focus]) {
		return len(rows[m.focus]) - max(0, here-1)
	}
	return 0
}

// table returns the header and as many rows as fit into room lines. If rows are hidden, the last
// line shows their number.
func (m Model) table(t section, i int, rows []row, room int) []string {
	shown, more := rows, 0
	if room < len(rows) {
		from := 0
		if i == m.focus {
			from = min(m.offset, len(rows)-max(0, room-1))
		}
		shown = rows[from:min(len(rows), from+max(0, room-1))]
		more = len(rows) - len(shown)
	}
	lines := strings.Split(m.render(t, i, shown), "\n")
	if more > 0 && room > 0 {
		lines = append(lines, faint.Render(fmt.Sprintf("… %d more", more)))
	}
	return lines
}

func (m Model) render(t section, i int, rows []row) string {
	headers := make([]string, len(t.columns))
	for c, column := range t.columns {
		headers[c] = column.name
		if by := m.orders[i]; by.column == c && by != (order{}) {
			headers[c] += map[bool]string{false: "▾", true: "▴"}[by.reverse]
		}
	}
	cells := make([][]string, len(rows))
	for r, row := range rows {
		for c, cell := range row.cells {
			text := cell.text
			if t.columns[c].bar && text != "" {
				text = bar(cell.share) + " " + text
			}
			cells[r] = append(cells[r], text)
		}
	}
	style := func(r, c int) lipgloss.Style {
		s := bold
		switch {
		case r != table.HeaderRow:
			s = styles[rows[r].severity]
		case i == m.focus && m.height > 0:
			s = accent
		}
		s = s.PaddingRight(len(gap))
		if t.columns[c].numeric && !t.columns[c].bar {
			s = s.Align(lipgloss.Right)
		}
		return s
	}
	return table.New().Headers(headers...).Rows(cells...).StyleFunc(style).Wrap(false).
		Border(lipgloss.Border{}).BorderTop(false).BorderBottom(false).BorderLeft(false).BorderRight(false).
		BorderColumn(false).BorderHeader(false).String()
}

func bar(share float64) string {
	full := int(math.Round(barWidth * min(1, share)))
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}
