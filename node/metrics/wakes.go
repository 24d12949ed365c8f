package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

var waitingToWake = prometheus.NewDesc("troupe_model_waiting_requests",
	"Requests that wait at this node's router until a replica serves.", []string{"model"}, nil)

// collectWaiting collects the requests that wait, for each deployment that a router knows.
func collectWaiting(to chan<- prometheus.Metric, view *messages.ClusterView) {
	for _, d := range view.GetDeployments() {
		name := d.GetSpec().GetName()
		sendGauge(to, waitingToWake, float64(view.GetWaiting()[name]), name)
	}
}

// Wakes counts the wakes of the deployments that this node leads. It is safe for concurrent use.
type Wakes struct {
	total   *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

// NewWakes returns a Wakes whose metrics are registered.
func NewWakes(r prometheus.Registerer) *Wakes {
	model := []string{"model"}
	w := &Wakes{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_model_wakes_total", Help: "Deployments led by this node that requests have woken.",
		}, model),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "troupe_model_wake_seconds",
			Help:    "Time from a wake of a deployment led by this node to its first replica that serves.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 17),
		}, model),
	}
	r.MustRegister(w.total, w.seconds)
	return w
}

// Woken counts a wake.
func (w *Wakes) Woken(model string) { w.total.WithLabelValues(model).Inc() }

// Served observes the time from a wake to the first replica that serves.
func (w *Wakes) Served(model string, took time.Duration) {
	w.seconds.WithLabelValues(model).Observe(took.Seconds())
}
