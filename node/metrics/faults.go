package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

var (
	hungSteps = prometheus.NewDesc("troupe_replica_hung_steps_total",
		"Steps that took far longer than expected; replicas.list has the fault of a replica.",
		[]string{"model", "replica"}, nil)
	canaryFailures = prometheus.NewDesc("troupe_replica_canary_failures_total",
		"Checks of idle replicas that gave another token than the first one, or crashed the engine.",
		[]string{"model", "replica"}, nil)
	verified = prometheus.NewDesc("troupe_replica_verified_total",
		"Checks after standby in which the weights gave the tokens of their first load.",
		[]string{"model", "replica"}, nil)
)

func collectFaults(to chan<- prometheus.Metric, replicas []*messages.ReplicaStatus) {
	for _, r := range replicas {
		to <- prometheus.MustNewConstMetric(hungSteps, prometheus.CounterValue, float64(r.GetHungSteps()),
			r.GetModel(), r.GetName())
		to <- prometheus.MustNewConstMetric(canaryFailures, prometheus.CounterValue, float64(r.GetCanaryFailures()),
			r.GetModel(), r.GetName())
		to <- prometheus.MustNewConstMetric(verified, prometheus.CounterValue, float64(r.GetVerified()),
			r.GetModel(), r.GetName())
	}
}
