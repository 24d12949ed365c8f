package simulate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"troupe/core/loadsource"
)

// figure is a column of the table and of CSV.
type figure struct {
	title, key string
	of         func(ModelResult) *float64
	text       func(float64) string
	life       bool // of what may not happen in a run: not in tables if it is 0 for all models
}

var figures = []figure{
	{"REQUESTS", "requests", func(m ModelResult) *float64 { return count(m.Requests) }, whole, false},
	{"REFUSED", "refused", func(m ModelResult) *float64 { return count(m.Refused) }, whole, false},
	{"TTFT P50", "ttft_p50_seconds", func(m ModelResult) *float64 { return m.TTFTP50 }, seconds, false},
	{"P99", "ttft_p99_seconds", func(m ModelResult) *float64 { return m.TTFTP99 }, seconds, false},
	{"TPOT P50", "tpot_p50_seconds", func(m ModelResult) *float64 { return m.TPOTP50 }, seconds, false},
	{"P99", "tpot_p99_seconds", func(m ModelResult) *float64 { return m.TPOTP99 }, seconds, false},
	{"IN SLO", "slo_attainment", func(m ModelResult) *float64 { return m.SLOAttainment }, percent, false},
	{"GOODPUT/s", "goodput", func(m ModelResult) *float64 { return &m.Goodput }, short, false},
	{"DEVICE-HOURS", "device_hours", func(m ModelResult) *float64 { return &m.DeviceHours }, short, false},
	{"BUSY", "busy", func(m ModelResult) *float64 { return &m.Busy }, percent, false},
	{"KV HITS", "kv_hits", func(m ModelResult) *float64 { return m.KVHits }, percent, false},
	{"PREEMPTED", "preemptions", func(m ModelResult) *float64 { return count(int(m.Preemptions)) }, whole, false},
	{"STEPS", "steps", func(m ModelResult) *float64 { return count(int(m.Steps)) }, whole, false},
	{"LOADS", "loads", func(m ModelResult) *float64 { return count(m.LoadCount) }, whole, true},
	{"TIME", "load_seconds", func(m ModelResult) *float64 { return &m.LoadSeconds }, seconds, true},
	{"STARTS", "starts", func(m ModelResult) *float64 { return count(m.Starts) }, whole, true},
	{"TIME", "start_seconds", func(m ModelResult) *float64 { return &m.StartSeconds }, seconds, true},
	{"SWITCHES", "switches", func(m ModelResult) *float64 { return count(m.Switches) }, whole, true},
	{"TIME", "switch_seconds", func(m ModelResult) *float64 { return &m.SwitchSeconds }, seconds, true},
	{"WAKES", "wakes", func(m ModelResult) *float64 { return count(m.Wakes) }, whole, true},
	{"TIME", "wake_seconds", func(m ModelResult) *float64 { return &m.WakeSeconds }, seconds, true},
	{"INTERRUPTED", "interrupted", func(m ModelResult) *float64 { return count(m.Interrupted) }, whole, true},
	{"UNFINISHED", "unfinished", func(m ModelResult) *float64 { return count(m.Unfinished) }, whole, true},
}

// sources are the sources of weights, in the order of their columns in CSV.
var sources = []loadsource.Kind{loadsource.Host, loadsource.Device, loadsource.DiskImage, loadsource.Folder,
	loadsource.Node, loadsource.NodeDevice}

func count(n int) *float64 { f := float64(n); return &f }

func whole(f float64) string   { return strconv.FormatFloat(f, 'f', 0, 64) }
func short(f float64) string   { return strconv.FormatFloat(f, 'f', 2, 64) }
func percent(f float64) string { return strconv.FormatFloat(100*f, 'f', 1, 64) + " %" }

// seconds formats a number of seconds with three digits.
func seconds(f float64) string {
	d := time.Duration(f * 1e9)
	switch {
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= 100*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(10 * time.Nanosecond).String()
}

// PrintTable prints results of the same scenario with different seeds, a line for each model. With
// several seeds a figure is the mean, followed by the lowest and the highest.
func PrintTable(to io.Writer, all []Result) error {
	first := all[0]
	fmt.Fprintf(to, "Simulated, not measured: %s, %s, %v, %.1f device-hours\n\n", first.Scenario, Seeds(all),
		lengthOf(first), first.DeviceHours)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "MODEL")
	columns := columnsOf(all)
	for _, f := range columns {
		fmt.Fprint(w, "\t", f.title)
	}
	for i, m := range first.Models {
		fmt.Fprint(w, "\n", m.Model)
		for _, f := range columns {
			fmt.Fprint(w, "\t", f.over(all, i))
		}
	}
	fmt.Fprintln(w)
	if err := w.Flush(); err != nil {
		return err
	}
	for _, part := range parts {
		if err := part.print(to, all); err != nil {
			return err
		}
	}
	return nil
}

// columnsOf returns the figures of the table.
func columnsOf(all []Result) (columns []figure) {
	for i, f := range figures {
		beside := f.title == "TIME" && len(columns) > 0 && columns[len(columns)-1].key == figures[i-1].key
		if beside || !f.life || f.title != "TIME" && f.happened(all) {
			columns = append(columns, f)
		}
	}
	return columns
}

// happened reports whether a figure is more than 0 for a model.
func (f figure) happened(all []Result) bool { return f.any(all, func(v float64) bool { return v > 0 }) }

// known reports whether a figure is known of a model.
func (f figure) known(all []Result) bool { return f.any(all, func(float64) bool { return true }) }

func (f figure) any(all []Result, holds func(float64) bool) bool {
	return slices.ContainsFunc(all, func(r Result) bool {
		return slices.ContainsFunc(r.Models, func(m ModelResult) bool {
			v := f.of(m)
			return v != nil && holds(*v)
		})
	})
}

// over formats the figure of a model over all results.
func (f figure) over(all []Result, model int) string {
	values := make([]*float64, len(all))
	for i, r := range all {
		values[i] = f.of(r.Models[model])
	}
	return f.spread(values)
}

// PrintCSV prints results as CSV, a line for each seed and model.
func PrintCSV(to io.Writer, all []Result) error {
	w := csv.NewWriter(to)
	header := []string{"origin", "scenario", "seed", "seconds", "model"}
	columns := allFigures()
	for _, f := range columns {
		header = append(header, f.key)
	}
	for _, kind := range sources {
		key := "loads_from_" + strings.ReplaceAll(string(kind), " ", "_")
		header = append(header, key, key+"_seconds")
	}
	if err := w.Write(header); err != nil {
		return err
	}
	for _, r := range all {
		for _, m := range r.Models {
			row := []string{"simulated", r.Scenario, fmt.Sprint(r.Seed), number(&r.Seconds), m.Model}
			for _, f := range columns {
				row = append(row, number(f.of(m)))
			}
			for _, kind := range sources {
				from := m.from(kind)
				row = append(row, fmt.Sprint(from.Count), number(&from.Seconds))
			}
			if err := w.Write(row); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
}

// from returns the loads from a source.
func (m ModelResult) from(kind loadsource.Kind) SourceResult {
	for _, s := range m.Loads {
		if s.Source == string(kind) {
			return s
		}
	}
	return SourceResult{}
}

// number formats a figure; an unknown one is empty.
func number(f *float64) string {
	if f == nil {
		return ""
	}
	return strconv.FormatFloat(*f, 'g', -1, 64)
}

// PrintJSON prints results as JSON.
func PrintJSON(to io.Writer, all []Result) error {
	out := json.NewEncoder(to)
	out.SetIndent("", "  ")
	return out.Encode(struct {
		Simulated bool     `json:"simulated"`
		Runs      []Result `json:"runs"`
	}{true, all})
}
