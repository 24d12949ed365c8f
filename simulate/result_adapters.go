package simulate

import (
	"slices"

	"troupe/core/lora"
)

// AdapterUse is what became of a model's adapters. All is nil if it takes none.
type AdapterUse struct {
	AdapterHits       *float64 `json:"adapter_hits"`       // share of such requests that found it on the device
	AdapterLoads      *uint64  `json:"adapter_loads"`      // to devices
	AdapterReads      *uint64  `json:"adapter_reads"`      // of them from disk
	AdapterPrefetches *uint64  `json:"adapter_prefetches"` // of them without a request
	AdapterEvictions  *uint64  `json:"adapter_evictions"`
	AdapterWaits      *uint64  `json:"adapter_waits"` // requests whose adapter was not on the device when they came
	// AdapterWaitP50 and AdapterWaitP99 are the times until it was, of these requests.
	AdapterWaitP50 *float64 `json:"adapter_wait_p50_seconds"`
	AdapterWaitP99 *float64 `json:"adapter_wait_p99_seconds"`
}

func (m *model) adapterUse(s lora.Stats) (use AdapterUse) {
	if m.Adapters == nil {
		return use
	}
	waits := uint64(len(m.adapterWaits))
	slices.Sort(m.adapterWaits)
	return AdapterUse{AdapterHits: share(int(s.Hits), int(s.Hits+waits)), AdapterLoads: &s.Loads,
		AdapterReads: &s.Reads, AdapterPrefetches: &s.Prefetches, AdapterEvictions: &s.Evictions, AdapterWaits: &waits,
		AdapterWaitP50: quantile(m.adapterWaits, 0.50), AdapterWaitP99: quantile(m.adapterWaits, 0.99)}
}

// addPool adds what a pool has counted.
func (t *totals) addPool(p *adapterPool) {
	if p == nil {
		return
	}
	s, a := p.machine.Stats(), &t.adapters
	a.Hits, a.Loads, a.Reads = a.Hits+s.Hits, a.Loads+s.Loads, a.Reads+s.Reads
	a.Prefetches, a.Evictions = a.Prefetches+s.Prefetches, a.Evictions+s.Evictions
}
