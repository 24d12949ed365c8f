package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/engine/residency"
)

var (
	weightsVerified = prometheus.NewDesc("troupe_weights_verified_total",
		"Loads of weights by the result of their canary: recorded, the first one; passed, its tokens were those "+
			"recorded; rejected, the weights were dropped.",
		[]string{"result"}, nil)
	weightsVerifySeconds = prometheus.NewDesc("troupe_weights_verify_seconds_total",
		"Time of the canaries of loaded weights.", nil, nil)
)

// Canaries collects the metrics of the canaries of loads.
type Canaries struct{ Of *residency.Canaries }

// Describe implements prometheus.Collector.
func (c Canaries) Describe(to chan<- *prometheus.Desc) {
	to <- weightsVerified
	to <- weightsVerifySeconds
}

// Collect implements prometheus.Collector.
func (c Canaries) Collect(to chan<- prometheus.Metric) {
	counts := c.Of.Counts()
	for _, one := range []struct {
		result string
		n      uint64
	}{{"recorded", counts.Recorded}, {"passed", counts.Passed}, {"rejected", counts.Rejected}} {
		to <- prometheus.MustNewConstMetric(weightsVerified, prometheus.CounterValue, float64(one.n), one.result)
	}
	to <- prometheus.MustNewConstMetric(weightsVerifySeconds, prometheus.CounterValue, counts.Took.Seconds())
}
