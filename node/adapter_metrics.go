package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

var (
	adapterHeld    = adapterMetric("held", "Adapters that replicas have, by the nearest place: gpu, dram.", "location")
	adapterPages   = adapterMetric("pages", "Pages of 2 MiB for adapters on GPUs, free or used.", "state")
	adapterAwaited = adapterMetric("awaited",
		"Sequences that wait for their adapter, and pins of the operator that do.")
	adapterHits  = adapterMetric("hits_total", "Sequences that came while their adapter was on the GPU.")
	adapterLoads = adapterMetric("loads_total", "Adapters copied to a GPU, by where they were read: disk, dram.",
		"from")
	adapterPrefetch  = adapterMetric("prefetches_total", "Of the loads, those that nobody waited for.")
	adapterEvictions = adapterMetric("evictions_total", "Adapters that left a GPU.")
	adapterFailures  = adapterMetric("load_failures_total", "Loads that failed; the log says why.")
	adapterMetrics   = []*prometheus.Desc{
		adapterHeld, adapterPages, adapterAwaited, adapterHits, adapterLoads, adapterPrefetch, adapterEvictions, adapterFailures,
	}
)

func adapterMetric(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("troupe_adapter_"+name, help, append([]string{"model", "replica"}, labels...), nil)
}

// collectAdapters says what replicas do with adapters, as soon as they have memory for some.
func collectAdapters(to chan<- prometheus.Metric, here []*messages.ReplicaStatus) {
	for _, r := range here {
		c := r.GetAdapterCounts()
		if c == nil {
			continue
		}
		in := map[messages.AdapterLocation]int{}
		for _, a := range r.GetAdapters() {
			in[a.GetLocation()]++
		}
		value := func(d *prometheus.Desc, kind prometheus.ValueType, n float64, label ...string) {
			to <- prometheus.MustNewConstMetric(d, kind, n, append([]string{r.GetModel(), r.GetName()}, label...)...)
		}
		value(adapterHeld, prometheus.GaugeValue, float64(in[messages.AdapterLocation_ADAPTER_LOCATION_GPU]), "gpu")
		value(adapterHeld, prometheus.GaugeValue, float64(in[messages.AdapterLocation_ADAPTER_LOCATION_DRAM]), "dram")
		value(adapterPages, prometheus.GaugeValue, float64(c.GetPagesFree()), "free")
		value(adapterPages, prometheus.GaugeValue, float64(c.GetPages()-c.GetPagesFree()), "used")
		value(adapterAwaited, prometheus.GaugeValue, float64(r.GetAdaptersAwaited()))
		value(adapterLoads, prometheus.CounterValue, float64(c.GetReads()), "disk")
		value(adapterLoads, prometheus.CounterValue, float64(c.GetLoads()-c.GetReads()), "dram")
		for d, n := range map[*prometheus.Desc]uint64{
			adapterHits: c.GetHits(), adapterPrefetch: c.GetPrefetches(), adapterEvictions: c.GetEvictions(), adapterFailures: c.GetFailures(),
		} {
			value(d, prometheus.CounterValue, float64(n))
		}
	}
}
