package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/core/planner"
)

// Plans measures the plans that this node makes while it leads. It is safe for concurrent use.
type Plans struct {
	seconds *prometheus.HistogramVec
	causes  *prometheus.CounterVec
	changes *prometheus.CounterVec
	writes  *prometheus.CounterVec
	unmet   *prometheus.GaugeVec
}

// NewPlans returns a Plans whose metrics are registered.
func NewPlans(r prometheus.Registerer) *Plans {
	p := &Plans{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "troupe_planner_step_seconds",
			Help:    "Time for the steps of plans of this node, while it leads.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"step"}),
		causes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_planner_plans_total",
			Help: "Plans of this node, while it leads, by their first cause: interval, node, model or leader.",
		}, []string{"cause"}),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_planner_changes_total",
			Help: "Replicas that plans of this node have placed or withdrawn.",
		}, []string{"change"}),
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_planner_writes_total",
			Help: "Writes of plans of this node, by outcome: stored, conflict, not stored or not confirmed.",
		}, []string{"outcome"}),
		unmet: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "troupe_planner_missing_replicas",
			Help: "Replicas that models want and do not get, by the last plan of this node.",
		}, []string{"model"}),
	}
	r.MustRegister(p.seconds, p.causes, p.changes, p.writes, p.unmet)
	return p
}

// Planned measures a plan that has ended.
func (p *Plans) Planned(r *planner.Record) {
	for _, s := range r.Steps {
		p.seconds.WithLabelValues(s.Name).Observe(s.Took.Seconds())
	}
	p.causes.WithLabelValues(causeOf(r.Causes)).Inc()
	for _, w := range r.Writes {
		p.writes.WithLabelValues(w.Outcome.String()).Inc()
		for _, c := range w.Changes {
			switch {
			case w.Outcome != planner.Done:
			case c.Withdrawn:
				p.changes.WithLabelValues("withdrawn").Inc()
			default:
				p.changes.WithLabelValues("placed").Inc()
			}
		}
	}
	p.unmet.Reset()
	for _, u := range r.Plan.Unmet {
		p.unmet.WithLabelValues(u.Model).Set(float64(u.Missing))
	}
}

// causeOf returns the kind of the first cause of a plan.
func causeOf(causes []string) string {
	switch first := strings.Join(causes[:min(1, len(causes))], ""); {
	case first == "interval":
		return first
	case strings.HasPrefix(first, "node "):
		return "node"
	case strings.Contains(first, ": "):
		return "model"
	}
	return "leader"
}
