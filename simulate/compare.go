package simulate

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// PrintComparison prints the figures of alternatives, and the differences from the first one: the mean over
// the seeds, and with several seeds the lowest and the highest.
func PrintComparison(to io.Writer, all []Alternative) error {
	base := all[0]
	fmt.Fprintf(to, "Simulated, not measured: %s of each\n\n", Seeds(base.Runs))
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for i, a := range all {
		fmt.Fprintf(w, "%s\t%s\t%s, %v, %s device-hours\n", Letter(i), a.Name, a.Runs[0].Scenario,
			lengthOf(a.Runs[0]), short(a.Runs[0].DeviceHours))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(to)
	w = tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "MODEL\tFIGURE\tA")
	for i := range all[1:] {
		fmt.Fprintf(w, "\t%s\t%s - A", Letter(i+1), Letter(i+1))
	}
	fmt.Fprintln(w)
	for _, model := range RowsOf(all) {
		for _, f := range shown(all) {
			from := base.values(f, model)
			line := []string{model, f.name(), f.spread(from)}
			for _, a := range all[1:] {
				values := a.values(f, model)
				line = append(line, f.spread(values), f.difference(from, values))
			}
			if known := slices.ContainsFunc(line[2:], func(s string) bool { return s != "-" }); known {
				fmt.Fprintln(w, strings.Join(line, "\t"))
			}
		}
	}
	return w.Flush()
}

// difference formats the differences between the values of two alternatives, seed by seed.
func (f figure) difference(from, to []*float64) string {
	var differences []*float64
	for i := range min(len(from), len(to)) {
		if from[i] != nil && to[i] != nil {
			d := *to[i] - *from[i]
			differences = append(differences, &d)
		}
	}
	d, ok := spreadOf(differences)
	if !ok {
		return "-"
	}
	text := f.signed(d.Mean)
	if a, _ := spreadOf(from); a.Mean != 0 && f.signed(d.Mean) != f.signed(0) && !strings.HasSuffix(text, "points") {
		text += fmt.Sprintf(", %+.1f %%", 100*d.Mean/a.Mean)
	}
	if low, high := f.signed(d.Low), f.signed(d.High); low != high {
		text += fmt.Sprintf(" (%s to %s)", low, high)
	}
	return text
}

// signed formats a difference. One of shares is in percentage points.
func (f figure) signed(d float64) string {
	size := f.text(max(d, -d))
	text := strings.Replace(size, "%", "points", 1)
	switch {
	case size == f.text(0):
		return text
	case d > 0:
		return "+" + text
	}
	return "-" + text
}
