package metrics

import (
	"regexp"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// GoRuntime collects the usual metrics of the Go runtime and the size of the live heap. Unlike the
// allocated heap, the live heap excludes garbage that has not been collected, so it reveals a leak.
func GoRuntime() prometheus.Collector {
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}))
}
