package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

var (
	hostBytes = prometheus.NewDesc("troupe_host_cache_bytes",
		"Host memory that holds images, of weights or adapters. The replicas of the node share them.",
		[]string{"of"}, nil)
	hostImages = prometheus.NewDesc("troupe_host_cache_images", "Images in host memory, of weights or adapters.",
		[]string{"of"}, nil)
	hostBudget = prometheus.NewDesc("troupe_host_cache_budget_bytes", "Size of the host cache (--weights-dram).",
		nil, nil)
	hostRefused = prometheus.NewDesc("troupe_host_cache_adapters_refused_total",
		"Loads of adapters for which the host cache had no room, so that they left no copy.", nil, nil)
	hostMetrics = []*prometheus.Desc{hostBytes, hostImages, hostBudget, hostRefused}
)

// collectHostCache collects the metrics of a host cache; nil: the node has none.
func collectHostCache(to chan<- prometheus.Metric, s *messages.HostCacheStatus) {
	if s == nil {
		return
	}
	gauge := func(d *prometheus.Desc, n uint64, label ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), label...)
	}
	gauge(hostBytes, s.GetUsedBytes()-s.GetAdapterBytes(), "weights")
	gauge(hostBytes, s.GetAdapterBytes(), "adapters")
	gauge(hostImages, uint64(len(s.GetImages())), "weights")
	gauge(hostImages, uint64(s.GetAdapterCopies()), "adapters")
	gauge(hostBudget, s.GetBudgetBytes())
	to <- prometheus.MustNewConstMetric(hostRefused, prometheus.CounterValue, float64(s.GetAdaptersRefused()))
}
