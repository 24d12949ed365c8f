package simulate

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// part is a further table, of the models that have what it is about.
type part struct {
	title   string
	has     func(ModelResult) bool
	figures []figure
}

var parts = []part{
	{"ADAPTERS", func(m ModelResult) bool { return m.AdapterLoads != nil }, []figure{
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
	{"KV TIERS", func(m ModelResult) bool { return m.Offloaded != nil }, []figure{
		numbered("OFFLOADED", "offloaded_tokens", func(m ModelResult) *uint64 { return m.Offloaded }),
		numbered("FROM DRAM", "restored_dram_tokens", func(m ModelResult) *uint64 { return m.RestoredDRAM }),
		numbered("FROM NVME", "restored_nvme_tokens", func(m ModelResult) *uint64 { return m.RestoredNVMe }),
		{"FROM OTHERS", "restored_remote_tokens", func(m ModelResult) *float64 { return figureOf(m.RestoredRemote) },
			whole, true},
		{"RESTORED", "restored", func(m ModelResult) *float64 { return m.Restored }, percent, false},
		numbered("RESTORES", "restores", func(m ModelResult) *uint64 { return m.Restores }),
		numbered("AVOIDED", "restores_avoided", func(m ModelResult) *uint64 { return m.Avoided }),
	}},
	{"MIGRATIONS", func(m ModelResult) bool { return m.MigrationUse.any() }, []figure{
		{"COUNT", "migrations", func(m ModelResult) *float64 { return count(m.Migrations) }, whole, true},
		{"FAILED", "migrations_failed", func(m ModelResult) *float64 { return count(m.MigrationsFailed) }, whole, true},
		{"BYTES", "migration_bytes", func(m ModelResult) *float64 { return count(int(m.MigrationBytes)) }, whole, true},
		{"BLOCKS", "migration_blocks", func(m ModelResult) *float64 { return count(m.MigrationBlocks) }, whole, true},
		{"REUSED", "migration_blocks_reused", func(m ModelResult) *float64 { return count(m.MigrationReused) }, whole,
			true},
		{"TIME P50", "migration_p50_seconds", func(m ModelResult) *float64 { return m.MigrationP50 }, seconds, true},
		{"TIME P99", "migration_p99_seconds", func(m ModelResult) *float64 { return m.MigrationP99 }, seconds, true},
		{"PAUSE P50", "migration_pause_p50_seconds", func(m ModelResult) *float64 { return m.MigrationPauseP50 },
			seconds, true},
		{"PAUSE P99", "migration_pause_p99_seconds", func(m ModelResult) *float64 { return m.MigrationPauseP99 },
			seconds, true},
	}},
}

// numbered returns the figure of a number; nil stays nil.
func numbered(title, key string, of func(ModelResult) *uint64) figure {
	return figure{title, key, func(m ModelResult) *float64 { return figureOf(of(m)) }, whole, false}
}

func figureOf(n *uint64) *float64 {
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

// print prints the table, unless no model has what it is about.
func (p part) print(to io.Writer, all []Result) error {
	has := func(model int) bool {
		return slices.ContainsFunc(all, func(r Result) bool { return p.has(r.Models[model]) })
	}
	shown := false
	for i := range all[0].Models {
		shown = shown || has(i)
	}
	if !shown {
		return nil
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\n", p.title)
	columns := slices.DeleteFunc(slices.Clone(p.figures), func(f figure) bool { return f.life && !f.known(all) })
	for _, f := range columns {
		fmt.Fprint(w, "\t", f.title)
	}
	for i, m := range all[0].Models {
		if !has(i) {
			continue
		}
		fmt.Fprint(w, "\n", m.Model)
		for _, f := range columns {
			fmt.Fprint(w, "\t", f.over(all, i))
		}
	}
	fmt.Fprintln(w)
	return w.Flush()
}
