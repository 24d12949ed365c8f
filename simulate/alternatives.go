package simulate

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Alternative is a scenario beside others: a file, or a point of a grid. All have the same seeds.
type Alternative struct {
	Name string    `json:"name"` // of the file, or the settings
	Set  []Setting `json:"set,omitempty"`
	Runs []Result  `json:"runs"` // one for each seed
}

// AllModels is the name of the row with the figures of all models together.
const AllModels = "(all)"

// summed are the figures of all models that are the sum of those of each. The others are left out, but for
// the SLO attainment: it is the share of all requests.
var summed = []string{"requests", "refused", "goodput", "preemptions", "steps", "loads", "load_seconds", "starts",
	"start_seconds", "switches", "switch_seconds", "wakes", "wake_seconds", "interrupted", "unfinished", "migrations",
	"migrations_failed", "migration_bytes", "migration_blocks", "migration_blocks_reused"}

// Rows returns what to show for each model of an alternative, and with several models for all of them.
func (a Alternative) Rows() []string {
	var names []string
	for _, m := range a.Runs[0].Models {
		names = append(names, m.Model)
	}
	if len(names) > 1 {
		names = append(names, AllModels)
	}
	return names
}

// values returns a figure of a model, or of all, for each seed. It returns nil for an unknown model.
func (a Alternative) values(f figure, model string) []*float64 {
	out := make([]*float64, len(a.Runs))
	for i, r := range a.Runs {
		if model == AllModels {
			out[i] = f.ofAll(r)
			continue
		}
		at := slices.IndexFunc(r.Models, func(m ModelResult) bool { return m.Model == model })
		if at < 0 {
			return nil
		}
		out[i] = f.of(r.Models[at])
	}
	return out
}

// ofAll returns a figure of all models of a run together, or nil if their figures do not give it.
func (f figure) ofAll(r Result) *float64 {
	var sum, requests float64
	switch {
	case f.key == "device_hours":
		return &r.DeviceHours // models that share a device count it once
	case f.key == "slo_attainment":
		for _, m := range r.Models {
			if m.SLOAttainment != nil {
				sum += *m.SLOAttainment * float64(m.Requests)
				requests += float64(m.Requests)
			}
		}
		if requests == 0 {
			return nil
		}
		sum /= requests
	case slices.Contains(summed, f.key):
		for _, m := range r.Models {
			if v := f.of(m); v != nil {
				sum += *v
			}
		}
	default:
		return nil
	}
	return &sum
}

// shown returns the figures that tables of alternatives have: those that are known of some model.
func shown(all []Alternative) (known []figure) {
	var runs []Result
	for _, a := range all {
		runs = append(runs, a.Runs...)
	}
	columns := columnsOf(runs)
	for _, f := range allFigures()[len(figures):] {
		if !f.life || f.happened(runs) {
			columns = append(columns, f)
		}
	}
	for _, f := range columns {
		if slices.ContainsFunc(all, func(a Alternative) bool {
			return slices.ContainsFunc(a.Rows(), func(row string) bool {
				_, ok := spreadOf(a.values(f, row))
				return ok
			})
		}) {
			known = append(known, f)
		}
	}
	return known
}

// Titles returns the names of the figures that tables of alternatives have.
func Titles(all []Alternative) (names []string) {
	for _, f := range shown(all) {
		names = append(names, f.name())
	}
	return names
}

// Cells returns the figures of a row as text, in the order of Titles.
func (a Alternative) Cells(all []Alternative, row string) (cells []string) {
	for _, f := range shown(all) {
		cells = append(cells, f.spread(a.values(f, row)))
	}
	return cells
}

// Figure returns a figure of a row by its key in JSON, also as text. It reports false if it is unknown.
func (a Alternative) Figure(key, row string) (s Spread, text string, known bool) {
	at := slices.IndexFunc(figures, func(f figure) bool { return f.key == key })
	if at < 0 {
		return s, "", false
	}
	values := a.values(figures[at], row)
	s, known = spreadOf(values)
	return s, figures[at].spread(values), known
}

// Letter returns what an alternative is called in comparisons: A, B and so on.
func Letter(i int) string {
	if i >= 26 {
		return Letter(i/26-1) + Letter(i%26)
	}
	return string(rune('A' + i))
}

// heading returns the title of a column of a table with all figures.
func (f figure) heading() string {
	switch {
	case strings.HasPrefix(f.key, "adapter_"):
		return "ADAPTER " + f.title
	case strings.HasPrefix(f.key, "migration"):
		return "MIGRATION " + f.title
	}
	return f.title
}

// name returns the title of a figure without those beside it: "TTFT P99" for P99.
func (f figure) name() string {
	if title := f.heading(); title != f.title {
		return title
	}
	for _, other := range figures {
		if other.title == f.title && other.key != f.key {
			of, _, _ := strings.Cut(f.key, "_")
			return strings.ToUpper(of) + " " + f.title
		}
	}
	return f.title
}

// RowsOf returns the rows of all alternatives, each once.
func RowsOf(all []Alternative) (names []string) {
	for _, a := range all {
		for _, n := range a.Rows() {
			if n != AllModels && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if len(names) > 1 {
		names = append(names, AllModels)
	}
	return names
}

// PrintSweep prints the figures of the points of a grid, a line for each point and model.
func PrintSweep(to io.Writer, points []Alternative) error {
	first := points[0].Runs[0]
	fmt.Fprintf(to, "Simulated, not measured: %s, %s of each point\n\n", first.Scenario, Seeds(points[0].Runs))
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, s := range points[0].Set {
		fmt.Fprintf(w, "%s\t", s.Key)
	}
	fmt.Fprint(w, "MODEL")
	for _, f := range shown(points) {
		fmt.Fprint(w, "\t", f.heading())
	}
	fmt.Fprintln(w)
	for _, p := range points {
		for _, model := range p.Rows() {
			for _, s := range p.Set {
				fmt.Fprintf(w, "%s\t", s.Value)
			}
			fmt.Fprintln(w, model+"\t"+strings.Join(p.Cells(points, model), "\t"))
		}
	}
	return w.Flush()
}

// PrintAlternativesCSV prints alternatives as CSV, a line for each alternative, seed and model.
func PrintAlternativesCSV(to io.Writer, all []Alternative) error {
	w := csv.NewWriter(to)
	for i, a := range all {
		name, value := []string{"alternative"}, []string{a.Name}
		for _, s := range a.Set {
			name, value = append(name, s.Key), append(value, s.Value)
		}
		var alone bytes.Buffer
		if err := PrintCSV(&alone, a.Runs); err != nil {
			return err
		}
		lines, err := csv.NewReader(&alone).ReadAll()
		if err != nil {
			return err
		}
		for j, line := range lines {
			before := value
			if j == 0 {
				if before = name; i > 0 {
					continue
				}
			}
			if err := w.Write(slices.Insert(line, 1, before...)); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

// PrintAlternativesJSON prints alternatives as JSON.
func PrintAlternativesJSON(to io.Writer, all []Alternative) error {
	out := json.NewEncoder(to)
	out.SetIndent("", "  ")
	return out.Encode(struct {
		Simulated    bool          `json:"simulated"`
		Alternatives []Alternative `json:"alternatives"`
	}{true, all})
}
