package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

var (
	turnLabels   = []string{"gpu", "replica"}
	turnsGranted = prometheus.NewDesc("troupe_turns_granted_total",
		"Turns of a replica on its GPU. A replica that has the GPU to itself needs one.", turnLabels, nil)
	turnsWait = prometheus.NewDesc("troupe_turns_wait_seconds_total",
		"Time for which a replica has waited for its turns.", turnLabels, nil)
	turnsOverdue = prometheus.NewDesc("troupe_turns_overdue_total",
		"Turns that lasted far longer than expected, so that other replicas ran meanwhile.", turnLabels, nil)
	turnsShare = prometheus.NewDesc("troupe_turns_time_share",
		"Share of the GPU's time in which a replica ran steps, averaged over about 10 s.", turnLabels, nil)
	turnsSteps = prometheus.NewDesc("troupe_turns_step_seconds_total", "Time of all steps of a replica.",
		turnLabels, nil)
	turnMetrics = []*prometheus.Desc{turnsGranted, turnsWait, turnsOverdue, turnsShare, turnsSteps}
)

func collectSteps(to chan<- prometheus.Metric, replicas []*messages.ReplicaStatus) {
	for _, r := range replicas {
		to <- prometheus.MustNewConstMetric(turnsSteps, prometheus.CounterValue,
			r.GetStepTime().AsDuration().Seconds(), r.GetGpu(), r.GetName())
	}
}

func collectTurns(to chan<- prometheus.Metric, gpus []*messages.GpuStatus) {
	for _, g := range gpus {
		for _, t := range g.GetTurns() {
			send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64) {
				to <- prometheus.MustNewConstMetric(d, kind, value, g.GetName(), t.GetReplica())
			}
			send(turnsGranted, prometheus.CounterValue, float64(t.GetTurns()))
			send(turnsWait, prometheus.CounterValue, t.GetWaited().AsDuration().Seconds())
			send(turnsOverdue, prometheus.CounterValue, float64(t.GetOverdue()))
			send(turnsShare, prometheus.GaugeValue, t.GetShare())
		}
	}
}
