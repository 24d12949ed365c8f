package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

var (
	adapterHeld    = adapterMetric("held", "Adapters on the GPU of a replica.")
	adapterPages   = adapterMetric("pages", "Pages of 2 MiB for adapters on GPUs, free or used.", "state")
	adapterLeast   = adapterMetric("pages_min", "Of the pages for adapters, those that are never taken back.")
	adapterUsers   = adapterMetric("users", "Sequences that use an adapter of a replica or wait for it.")
	adapterAwaited = adapterMetric("awaited",
		"Sequences and pins of the operator that wait for their adapter.")
	adapterHits  = adapterMetric("hits_total", "Sequences whose adapter was on the GPU when they arrived.")
	adapterLoads = adapterMetric("loads_total", "Adapters copied to a GPU, by source: disk, dram (host memory).",
		"from")
	adapterPrefetch  = adapterMetric("prefetches_total", "Loads that no sequence waited for.")
	adapterEvictions = adapterMetric("evictions_total", "Adapters evicted from a GPU.")
	adapterFailures  = adapterMetric("load_failures_total", "Loads that failed; the log says why.")
	adapterMetrics   = []*prometheus.Desc{
		adapterHeld, adapterPages, adapterLeast, adapterUsers, adapterAwaited, adapterHits, adapterLoads,
		adapterPrefetch, adapterEvictions, adapterFailures,
	}
)

func adapterMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("troupe_adapter_"+name, help, append([]string{"model", "replica"}, labels...), nil)
}

// collectAdapters collects the adapter metrics of replicas that have memory for adapters.
func collectAdapters(to chan<- prometheus.Metric, replicas []*messages.ReplicaStatus) {
	for _, r := range replicas {
		c := r.GetAdapterCounts()
		if c == nil {
			continue
		}
		held, users := 0, uint32(0)
		for _, a := range r.GetAdapters() {
			users += a.GetSequences()
			if a.GetLocation() == messages.AdapterLocation_ADAPTER_LOCATION_GPU {
				held++
			}
		}
		value := func(d *prometheus.Desc, kind prometheus.ValueType, n float64, label ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, n, append([]string{r.GetModel(), r.GetName()}, label...)...)
		}
		value(adapterHeld, prometheus.GaugeValue, float64(held))
		value(adapterUsers, prometheus.GaugeValue, float64(users))
		value(adapterPages, prometheus.GaugeValue, float64(c.GetPagesFree()), "free")
		value(adapterPages, prometheus.GaugeValue, float64(c.GetPages()-c.GetPagesFree()), "used")
		value(adapterLeast, prometheus.GaugeValue, float64(c.GetPagesMin()))
		value(adapterAwaited, prometheus.GaugeValue, float64(r.GetAdaptersAwaited()))
		value(adapterLoads, prometheus.CounterValue, float64(c.GetReads()), "disk")
		value(adapterLoads, prometheus.CounterValue, float64(c.GetHostLoads()), "dram")
		for d, n := range map[*prometheus.Desc]uint64{
			adapterHits: c.GetHits(), adapterPrefetch: c.GetPrefetches(),
			adapterEvictions: c.GetEvictions(), adapterFailures: c.GetFailures(),
		} {
			value(d, prometheus.CounterValue, float64(n))
		}
	}
}
