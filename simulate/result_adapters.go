package simulate

import "slices"

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

func (m *model) adapterUse() (use AdapterUse) {
	if m.Adapters == nil {
		return use
	}
	var hits, loads, reads, prefetches, evictions uint64
	for _, r := range m.replicas {
		if r.pool == nil {
			continue
		}
		s := r.pool.machine.Stats()
		hits, loads, reads = hits+s.Hits, loads+s.Loads, reads+s.Reads
		prefetches, evictions = prefetches+s.Prefetches, evictions+s.Evictions
	}
	waits := uint64(len(m.adapterWaits))
	slices.Sort(m.adapterWaits)
	return AdapterUse{AdapterHits: share(int(hits), int(hits+waits)), AdapterLoads: &loads, AdapterReads: &reads,
		AdapterPrefetches: &prefetches, AdapterEvictions: &evictions, AdapterWaits: &waits,
		AdapterWaitP50: quantile(m.adapterWaits, 0.50), AdapterWaitP99: quantile(m.adapterWaits, 0.99)}
}
