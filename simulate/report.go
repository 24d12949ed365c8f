package simulate

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// figure is a column of the table and of CSV.
type figure struct {
	title, key string
	of         func(ModelResult) *float64
	text       func(float64) string
}

var figures = []figure{
	{"REQUESTS", "requests", func(m ModelResult) *float64 { return count(m.Requests) }, whole},
	{"REFUSED", "refused", func(m ModelResult) *float64 { return count(m.Refused) }, whole},
	{"TTFT P50", "ttft_p50_seconds", func(m ModelResult) *float64 { return m.TTFTP50 }, seconds},
	{"P99", "ttft_p99_seconds", func(m ModelResult) *float64 { return m.TTFTP99 }, seconds},
	{"TPOT P50", "tpot_p50_seconds", func(m ModelResult) *float64 { return m.TPOTP50 }, seconds},
	{"P99", "tpot_p99_seconds", func(m ModelResult) *float64 { return m.TPOTP99 }, seconds},
	{"IN SLO", "slo_attainment", func(m ModelResult) *float64 { return m.SLOAttainment }, percent},
	{"GOODPUT/s", "goodput", func(m ModelResult) *float64 { return &m.Goodput }, short},
	{"DEVICE-HOURS", "device_hours", func(m ModelResult) *float64 { return &m.DeviceHours }, short},
	{"BUSY", "busy", func(m ModelResult) *float64 { return &m.Busy }, percent},
	{"KV HITS", "kv_hits", func(m ModelResult) *float64 { return m.KVHits }, percent},
	{"PREEMPTED", "preemptions", func(m ModelResult) *float64 { return count(int(m.Preemptions)) }, whole},
	{"STEPS", "steps", func(m ModelResult) *float64 { return count(int(m.Steps)) }, whole},
}

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
	seeds := fmt.Sprint("seed ", first.Seed)
	if len(all) > 1 {
		seeds = fmt.Sprintf("seeds %d to %d", first.Seed, all[len(all)-1].Seed)
	}
	fmt.Fprintf(to, "Simulated, not measured: %s, %s, %v, %.1f device-hours\n\n", first.Scenario, seeds,
		time.Duration(first.Seconds*1e9).Round(time.Second), first.DeviceHours)
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "MODEL")
	for _, f := range figures {
		fmt.Fprint(w, "\t", f.title)
	}
	for i, m := range first.Models {
		fmt.Fprint(w, "\n", m.Model)
		for _, f := range figures {
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

// over formats the figure of a model over all results.
func (f figure) over(all []Result, model int) string {
	var sum, low, high float64
	n := 0
	for _, r := range all {
		v := f.of(r.Models[model])
		if v == nil {
			continue
		}
		if n++; n == 1 {
			low, high = *v, *v
		}
		sum, low, high = sum+*v, min(low, *v), max(high, *v)
	}
	switch {
	case n == 0:
		return "-"
	case len(all) == 1:
		return f.text(sum)
	}
	return fmt.Sprintf("%s (%s-%s)", f.text(sum/float64(n)), f.text(low), f.text(high))
}

// PrintCSV prints results as CSV, a line for each seed and model.
func PrintCSV(to io.Writer, all []Result) error {
	w := csv.NewWriter(to)
	header := []string{"origin", "scenario", "seed", "seconds", "model"}
	columns := allFigures()
	for _, f := range columns {
		header = append(header, f.key)
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
			if err := w.Write(row); err != nil {
				return err
			}
		}
	}
	w.Flush()
	return w.Error()
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
