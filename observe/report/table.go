package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/core/units"
	"troupe/messages"
)

// Table returns a report as text. What is unknown is shown as "-", with the reasons below.
func Table(r *messages.CapacityReport) string {
	var b strings.Builder
	t := &table{priced: priced(r)}
	t.header("MODEL", "BYTES", "MIN", "DEVICES", "PEAK", "AVERAGE", "WASTED/DAY")
	for _, m := range r.GetModels() {
		of := " of " + m.GetModel()
		t.rows = append(t.rows, t.costs([]string{
			m.GetModel(), t.cell(m.GetBytes(), bytes, "bytes"+of),
			t.cell(m.GetMinDevices(), number, "devices of a replica"+of), t.cell(m.GetDevices(), number, "devices"+of),
			t.cell(m.GetPeak(), percent, "peak"+of), t.cell(m.GetAverage(), percent, "average"+of),
			text(m.GetWastedHours(), hours),
		}, m.GetCost(), m.GetWastedCost()))
	}
	t.write(&b)
	b.WriteString("\n")
	t.header("POOL", "DEVICES", "AVERAGE", "WASTED/DAY")
	for _, p := range r.GetPools() {
		t.rows = append(t.rows, t.costs([]string{
			p.GetPool(), t.cell(p.GetDevices(), number, ""), t.cell(p.GetAverage(), percent, ""),
			text(p.GetWastedHours(), hours),
		}, p.GetCost(), p.GetWastedCost()))
	}
	t.write(&b)
	for _, why := range t.unknown {
		b.WriteString("\n- " + why)
	}
	if len(t.unknown) > 0 {
		b.WriteString("\n")
	}
	if d := r.GetObserved().AsDuration(); d > 0 {
		fmt.Fprintf(&b, "\nUse of devices averaged over %s.\n", d.Round(time.Second))
	}
	if n := r.GetSoftwareDevices(); n > 0 {
		fmt.Fprintf(&b, "Software devices, which compute in host memory: %d.\n", n)
	}
	return b.String()
}

// priced reports whether a report has costs.
func priced(r *messages.CapacityReport) bool {
	return slices.ContainsFunc(r.GetPools(), func(p *messages.PoolCapacity) bool { return p.GetCost().Value != nil })
}

// table is a table in progress.
type table struct {
	priced  bool
	rows    [][]string
	unknown []string // reasons
}

func (t *table) header(names ...string) {
	if t.priced {
		names = append(names, "COST/DAY", "WASTED COST/DAY")
	}
	t.rows = [][]string{names}
}

// cell formats a figure. If it is unknown, the table keeps what it is and why.
func (t *table) cell(f *messages.CapacityFigure, format func(float64) string, about string) string {
	why := f.GetUnknown()
	if why != "" && about != "" {
		why = about + ": " + why
	}
	if why != "" && !slices.Contains(t.unknown, why) {
		t.unknown = append(t.unknown, why)
	}
	return text(f, format)
}

// text formats a figure that follows from others.
func text(f *messages.CapacityFigure, format func(float64) string) string {
	if f == nil || f.Value == nil {
		return "-"
	}
	return format(f.GetValue())
}

func (t *table) costs(row []string, cost, wasted *messages.CapacityFigure) []string {
	if !t.priced {
		return row
	}
	return append(row, text(cost, money), text(wasted, money))
}

// write writes the rows with the first column to the left and the others to the right.
func (t *table) write(b *strings.Builder) {
	width := make([]int, len(t.rows[0]))
	for _, row := range t.rows {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for _, row := range t.rows {
		line := fmt.Sprintf("%-*s", width[0], row[0])
		for i, cell := range row[1:] {
			line += fmt.Sprintf("  %*s", width[i+1], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func bytes(v float64) string   { return units.FormatBytes(int64(v)) }
func number(v float64) string  { return strconv.FormatFloat(v, 'f', 0, 64) }
func percent(v float64) string { return strconv.FormatFloat(100*v, 'f', 0, 64) + " %" }
func hours(v float64) string   { return strconv.FormatFloat(v, 'f', 1, 64) }
func money(v float64) string   { return strconv.FormatFloat(v, 'f', 2, 64) }
