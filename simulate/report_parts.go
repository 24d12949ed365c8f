package simulate

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// part is a further table, of the models that have any of its figures.
type part struct {
	title   string
	figures []figure
}

var parts = []part{
	{"ADAPTERS", []figure{
		{"HITS", "adapter_hits", func(m ModelResult) *float64 { return m.AdapterHits }, percent},
		{"LOADS", "adapter_loads", func(m ModelResult) *float64 { return counted(m.AdapterLoads) }, whole},
		{"FROM DISK", "adapter_reads", func(m ModelResult) *float64 { return counted(m.AdapterReads) }, whole},
		{"AHEAD", "adapter_prefetches", func(m ModelResult) *float64 { return counted(m.AdapterPrefetches) }, whole},
		{"EVICTED", "adapter_evictions", func(m ModelResult) *float64 { return counted(m.AdapterEvictions) }, whole},
		{"WAITED", "adapter_waits", func(m ModelResult) *float64 { return counted(m.AdapterWaits) }, whole},
		{"WAIT P50", "adapter_wait_p50_seconds", func(m ModelResult) *float64 { return m.AdapterWaitP50 }, seconds},
		{"P99", "adapter_wait_p99_seconds", func(m ModelResult) *float64 { return m.AdapterWaitP99 }, seconds},
	}},
	{"KV TIERS", []figure{
		{"OFFLOADED", "offloaded_tokens", func(m ModelResult) *float64 { return counted(m.Offloaded) }, whole},
		{"FROM DRAM", "restored_dram_tokens", func(m ModelResult) *float64 { return counted(m.RestoredDRAM) }, whole},
		{"FROM NVME", "restored_nvme_tokens", func(m ModelResult) *float64 { return counted(m.RestoredNVMe) }, whole},
		{"RESTORED", "restored", func(m ModelResult) *float64 { return m.Restored }, percent},
		{"RESTORES", "restores", func(m ModelResult) *float64 { return counted(m.Restores) }, whole},
		{"AVOIDED", "restores_avoided", func(m ModelResult) *float64 { return counted(m.Avoided) }, whole},
	}},
}

// counted returns a number as a figure; nil stays nil.
func counted(n *uint64) *float64 {
	if n == nil {
		return nil
	}
	return count(int(*n))
}

// allFigures returns the columns of CSV.
func allFigures() []figure {
	all := slices.Clone(figures)
	for _, p := range parts {
		all = append(all, p.figures...)
	}
	return all
}

// print prints the table, unless no model has any of its figures.
func (p part) print(to io.Writer, all []Result) error {
	has := func(m ModelResult) bool {
		return slices.ContainsFunc(p.figures, func(f figure) bool { return f.of(m) != nil })
	}
	if !slices.ContainsFunc(all[0].Models, has) {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\n", p.title)
	for _, f := range p.figures {
		fmt.Fprint(w, "\t", f.title)
	}
	for i, m := range all[0].Models {
		if !has(m) {
			continue
		}
		fmt.Fprint(w, "\n", m.Model)
		for _, f := range p.figures {
			fmt.Fprint(w, "\t", f.over(all, i))
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}
