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
		{"HITS", "adapter_hits", func(m ModelResult) *float64 { return m.AdapterHits }, percent, false},
		numbered("LOADS", "adapter_loads", func(m ModelResult) *uint64 { return m.AdapterLoads }),
		numbered("FROM DISK", "adapter_reads", func(m ModelResult) *uint64 { return m.AdapterReads }),
		numbered("AHEAD", "adapter_prefetches", func(m ModelResult) *uint64 { return m.AdapterPrefetches }),
		numbered("EVICTED", "adapter_evictions", func(m ModelResult) *uint64 { return m.AdapterEvictions }),
		numbered("WAITED", "adapter_waits", func(m ModelResult) *uint64 { return m.AdapterWaits }),
		{"WAIT P50", "adapter_wait_p50_seconds", func(m ModelResult) *float64 { return m.AdapterWaitP50 }, seconds,
			false},
		{"P99", "adapter_wait_p99_seconds", func(m ModelResult) *float64 { return m.AdapterWaitP99 }, seconds, false},
	}},
	{"KV TIERS", []figure{
		numbered("OFFLOADED", "offloaded_tokens", func(m ModelResult) *uint64 { return m.Offloaded }),
		numbered("FROM DRAM", "restored_dram_tokens", func(m ModelResult) *uint64 { return m.RestoredDRAM }),
		numbered("FROM NVME", "restored_nvme_tokens", func(m ModelResult) *uint64 { return m.RestoredNVMe }),
		{"RESTORED", "restored", func(m ModelResult) *float64 { return m.Restored }, percent, false},
		numbered("RESTORES", "restores", func(m ModelResult) *uint64 { return m.Restores }),
		numbered("AVOIDED", "restores_avoided", func(m ModelResult) *uint64 { return m.Avoided }),
	}},
}

// numbered returns the figure of a number; nil stays nil.
func numbered(title, key string, of func(ModelResult) *uint64) figure {
	return figure{title, key, func(m ModelResult) *float64 {
		if n := of(m); n != nil {
			return count(int(*n))
		}
		return nil
	}, whole, false}
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
