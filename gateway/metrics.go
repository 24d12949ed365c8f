package gateway

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests  *prometheus.CounterVec
	inFlight  prometheus.Gauge
	first     *prometheus.HistogramVec
	whole     *prometheus.HistogramVec
	tokensIn  *prometheus.CounterVec
	tokensOut *prometheus.CounterVec
	cached    *prometheus.CounterVec
}

func newMetrics(r *prometheus.Registry) *metrics {
	seconds := prometheus.ExponentialBuckets(0.001, 2, 20)
	byModel := []string{"model"}
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_gateway_requests_total", Help: "Requests answered, by endpoint and HTTP status.",
		}, []string{"endpoint", "status"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{Name: "troupe_gateway_requests_in_flight", Help: "Requests being served."}),
		first: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "troupe_gateway_time_to_first_token_seconds", Help: "From the request to its first token.", Buckets: seconds,
		}, byModel),
		whole: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "troupe_gateway_request_duration_seconds", Help: "From the request to its last token.", Buckets: seconds,
		}, byModel),
		tokensIn:  counter("troupe_gateway_prompt_tokens_total", "Prompt tokens of finished requests."),
		tokensOut: counter("troupe_gateway_output_tokens_total", "Output tokens of finished requests."),
		cached:    counter("troupe_gateway_cached_tokens_total", "Prompt tokens that were found in KV blocks."),
	}
	r.MustRegister(m.requests, m.inFlight, m.first, m.whole, m.tokensIn, m.tokensOut, m.cached)
	return m
}

func counter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"model"})
}

func (m *metrics) answered(endpoint string, status int) {
	m.requests.WithLabelValues(endpoint, strconv.Itoa(status)).Inc()
}

// generated counts a generation that ended well. Its model exists, so the label's values are bounded.
func (m *metrics) generated(gen *generation) {
	model, u := gen.request.Model, gen.usage()
	m.first.WithLabelValues(model).Observe(gen.first.Sub(gen.began).Seconds())
	m.whole.WithLabelValues(model).Observe(time.Since(gen.began).Seconds())
	m.tokensIn.WithLabelValues(model).Add(float64(u.Prompt))
	m.tokensOut.WithLabelValues(model).Add(float64(u.Completion))
	m.cached.WithLabelValues(model).Add(float64(u.Cached))
}
