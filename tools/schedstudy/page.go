package main

import (
	_ "embed"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"text/template"
)

//go:embed page.tmpl
var pageText string

// write writes the page from the results that are known.
func (s *study) write() error {
	t, err := template.New("page").Funcs(template.FuncMap{"capacities": s.capacityTable, "day": s.dayTable,
		"modes": s.modeTable, "slots": s.slotTable, "multiples": s.multipleTable, "zipf": s.zipfTable,
		"hours": func() int { return s.hours }, "div": func(a, b int) int { return a / b }, "rare": s.rare,
		"sweep": s.sweepTable, "best": func(when string) string { return s.best(when).key() },
		"carried": s.carriedTable, "long": s.longTable, "stale": s.stale, "runs": s.runs}).Parse(pageText)
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, nil); err != nil {
		return err
	}
	return os.WriteFile(s.page, []byte(b.String()), 0o666)
}

// unknown is a figure that is not known.
const unknown = "—"

// table returns a table in Markdown. It leaves out rows of which almost no figure is known.
func table(head string, rows []string) string {
	rows = slices.DeleteFunc(rows, func(row string) bool { return strings.Count(row, unknown) >= 4 })
	line := strings.Repeat("| --- ", strings.Count(head, "|")-1) + "|\n"
	return head + "\n" + line + strings.Join(rows, "\n")
}

// spread returns the mean of some figures, with the least and the greatest one.
func spread(all []float64, format string) string {
	if len(all) == 0 {
		return unknown
	}
	sum, least, greatest := 0.0, math.Inf(1), math.Inf(-1)
	for _, f := range all {
		sum, least, greatest = sum+f, min(least, f), max(greatest, f)
	}
	text := fmt.Sprintf(format, sum/float64(len(all)))
	if len(all) > 1 {
		text += fmt.Sprintf(" ("+format+"–"+format+")", least, greatest)
	}
	return text
}

// figures returns a figure of all runs of a row.
func (s *study) figures(row string, of func(seed int, r run) float64) (all []float64) {
	for seed := 1; seed <= s.seeds; seed++ {
		if r, known := s.results.Runs[fmt.Sprintf("%s/%d", row, seed)]; known {
			all = append(all, of(seed, r))
		}
	}
	return all
}

// attained returns the percentage of the requests of a model that were served within the SLO.
func (s *study) attained(row string, model int) string {
	return spread(s.figures(row, func(_ int, r run) float64 { return 100 * r.Models[model].Attained }), "%.2f")
}

// ttft returns the P99 of the TTFT of a model.
func (s *study) ttft(row string, model int, format string) string {
	return spread(s.figures(row, func(_ int, r run) float64 { return r.Models[model].TTFT99 }), format)
}

func (s *study) capacityTable() string {
	var rows []string
	for _, m := range models {
		row := "| " + m
		for i := range 8 {
			if c := s.results.Capacities[m]; i < len(c) {
				row += fmt.Sprintf(" | %.2f", c[i])
			} else {
				row += " | "
			}
		}
		rows = append(rows, row+" |")
	}
	return table("| replicas | 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8 |", rows)
}

// bounds returns a figure of all seeds whose bound is known.
func (s *study) bounds(d day, m mode, of func(day, int, mode) float64) (all []float64) {
	for seed := 1; seed <= s.seeds; seed++ {
		if f := of(d, seed, m); f > 0 {
			all = append(all, f)
		}
	}
	return all
}

// dayHead is the end of the head of tables with rows of dayRow.
const dayHead = "| device-hours | of the bound | code in SLO, % | translate | chat | summarize, P99 of TTFT | starts |"

func (s *study) dayTable(when string) string {
	var rows []string
	d := s.day(when)
	for _, way := range ways {
		rows = append(rows, s.dayRow(way.name, d.key(way.name), d, mode{}))
	}
	if best := s.best(when); best != sweep[0] {
		rows = append(rows, s.dayRow(best.key(), d.key(best.key()), d, mode{}))
	}
	return table("| "+dayHead, rows)
}

// modeTable returns the results of the scheduler in all modes beside their bounds.
func (s *study) modeTable(when string) string {
	var rows []string
	d := s.day(when)
	for _, m := range allModes() {
		name := fmt.Sprintf("%s | %s | %s", m, spread(s.bounds(d, m, s.largestOf), "%.2f"),
			spread(scale(s.bounds(d, m, s.leastOf), d.scale()), "%.1f"))
		rows = append(rows, s.dayRow(name, d.key(m.String()), d, m))
	}
	return table("| | largest λ | least device-hours "+dayHead, rows)
}

// longTable returns the results of days with their real length.
func (s *study) longTable() string {
	var rows []string
	for _, when := range allPeaks {
		for _, d := range []day{s.day(when), {when, realHours}} {
			name := fmt.Sprintf("%s | %d h", when, d.hours)
			rows = append(rows, s.upTo(1).dayRow(name, d.key("slo"), d, mode{}))
		}
	}
	return table("| peaks | day "+dayHead, rows)
}

// upTo returns the study with some seeds only.
func (s *study) upTo(seeds int) *study {
	return &study{seeds: seeds, hours: s.hours, results: results{Capacities: s.results.Capacities,
		Bounds: s.results.Bounds, Runs: s.results.Runs}}
}

// stale returns how many simulations are of another version of the scenarios or the code.
func (s *study) stale() (n int) {
	for _, r := range s.results.Runs {
		if r.Version == "" || r.Version != s.versions[r.Scenario] {
			n++
		}
	}
	return n
}

// runs returns how many simulations there are.
func (s *study) runs() int { return len(s.results.Runs) }

// scale returns by what device-hours are multiplied to give those of 24 hours.
func (d day) scale() float64 { return realHours / float64(d.hours) }

func scale(all []float64, by float64) []float64 {
	for i := range all {
		all[i] *= by
	}
	return all
}

// dayRow returns the row of a table, with the results of a key beside the bound of a mode.
func (s *study) dayRow(name, key string, d day, m mode) string {
	row := "| " + name + " | " + spread(s.figures(key, func(_ int, r run) float64 {
		return r.DeviceHours * d.scale()
	}), "%.1f")
	var ratios []float64
	for seed := 1; seed <= s.seeds; seed++ {
		if r, known := s.results.Runs[fmt.Sprintf("%s/%d", key, seed)]; known && s.leastOf(d, seed, m) > 0 {
			ratios = append(ratios, r.DeviceHours/s.leastOf(d, seed, m))
		}
	}
	row += " | " + spread(ratios, "%.2f")
	for i := range models {
		if i < len(models)-1 {
			row += " | " + s.attained(key, i)
		} else {
			row += " | " + s.ttft(key, i, "%.0f s")
		}
	}
	return row + " | " + spread(s.figures(key, starts), "%.0f") + " |"
}

func starts(_ int, r run) (n float64) {
	for _, m := range r.Models {
		n += float64(m.Starts)
	}
	return n
}

func (s *study) slotTable() string {
	var rows []string
	for _, wait := range slotWaits {
		key := "slots/" + wait.String()
		loads := func(_ int, r run) (n float64) {
			for _, m := range r.Models {
				n += float64(m.Loads)
			}
			return n
		}
		bound := func(seed int) float64 { return s.results.Bounds[fmt.Sprintf("slots/%d/%s", seed, wait)] }
		var least []float64
		for seed := 1; seed <= s.seeds; seed++ {
			if b := bound(seed); b > 0 {
				least = append(least, b)
			}
		}
		host := func(_ int, r run) (n float64) {
			for _, m := range r.Models {
				n += float64(m.From["host cache"])
			}
			return n
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s |", waitWords[wait],
			spread(least, "%.0f"), spread(s.figures(key, loads), "%.0f"), spread(s.figures(key, host), "%.0f"),
			spread(s.figures(key, func(seed int, r run) float64 { return loads(seed, r) / bound(seed) }), "%.2f"),
			s.ttft(key, 2, "%.1f s"), s.ttft(key, 3, "%.1f s"),
			spread(s.figures(key, refused), "%.0f")))
	}
	return table("| wait | least loads | loads | from host memory | of the least | P99 of TTFT, c | d | refused |",
		rows)
}

// rare returns a figure about the requests of the slots.
func (s *study) rare(what string) string {
	factor, format := 100.0, "%.0f"
	switch what {
	case "LRU":
		factor = 1
	case "requests":
		format = "%.1f"
	}
	key := map[string]string{"LRU": "LRU", "requests": "rare requests", "loads": "rare loads"}[what]
	var all []float64
	for seed := 1; seed <= s.seeds; seed++ {
		if f, known := s.results.Bounds[fmt.Sprintf("slots/%d/%s", seed, key)]; known {
			all = append(all, factor*f)
		}
	}
	return spread(all, format)
}

func refused(_ int, r run) (n float64) {
	for _, m := range r.Models {
		n += float64(m.Refused)
	}
	return n
}

func (s *study) zipfTable() string {
	var rows []string
	for _, z := range zipfRows {
		text, row := "| "+z.name, z.key()
		for i := range hotModels {
			text += " | " + s.ttft(row, i, "%.3f s")
		}
		text += " | " + spread(s.figures(row, refused), "%.0f")
		text += " | " + spread(s.figures(row, starts), "%.0f")
		text += " | " + spread(s.figures(row, func(_ int, r run) (n float64) {
			for _, m := range r.Models[hotModels:] {
				n = max(n, m.TTFT99)
			}
			return n
		}), "%.1f s")
		rows = append(rows, text+" |")
	}
	return table("| | P99 of TTFT, m01 | m02 | m03 | m04 | refused | starts | largest P99 of the others |", rows)
}
