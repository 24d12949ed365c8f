package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

var notFinite = prometheus.NewDesc(
	"troupe_sequences_not_finite_total",
	"Sequences that failed because their logits were NaN or infinite; "+
		"the log and replicas.list name the model or adapter.",
	[]string{"model", "replica"},
	nil,
)

func collectNotFinite(to chan<- prometheus.Metric, replicas []*messages.ReplicaStatus) {
	for _, r := range replicas {
		to <- prometheus.MustNewConstMetric(notFinite, prometheus.CounterValue,
			float64(r.GetSequencesNotFinite()), r.GetModel(), r.GetName())
	}
}
