package gateway

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests  *prometheus.CounterVec
	inFlight  prometheus.Gauge
	first     *prometheus.HistogramVec
	between   *prometheus.HistogramVec
	whole     *prometheus.HistogramVec
	tokensIn  *prometheus.CounterVec
	tokensOut *prometheus.CounterVec
	cached    *prometheus.CounterVec
	meters    sync.Map // model -> meter
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_gateway_requests_total", Help: "Requests answered, by endpoint, model (empty where none was found) and HTTP status.",
		}, []string{"endpoint", "model", "status"}),
		inFlight:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "troupe_gateway_requests_in_flight", Help: "Requests being served."}),
		first:     histogram("troupe_gateway_time_to_first_token_seconds", "From the request to its first token.", 0.001),
		between:   histogram("troupe_gateway_inter_token_seconds", "Between two tokens of a choice; of tokens that come together, their share.", 0.0001),
		whole:     histogram("troupe_gateway_request_duration_seconds", "From the request to its last token.", 0.001),
		tokensIn:  counter("troupe_gateway_prompt_tokens_total", "Prompt tokens of finished requests."),
		tokensOut: counter("troupe_gateway_output_tokens_total", "Output tokens of finished requests."),
		cached:    counter("troupe_gateway_cached_tokens_total", "Prompt tokens that were found in KV blocks."),
	}
	r.MustRegister(m.requests, m.inFlight, m.first, m.between, m.whole, m.tokensIn, m.tokensOut, m.cached)
	return m
}

func counter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"model"})
}

// histogram has 20 buckets, each twice as wide as the one before.
func histogram(name, help string, least float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(least, 2, 20),
	}, []string{"model"})
}

func (m *metrics) answered(a asked, status int) {
	m.requests.WithLabelValues(a.endpoint, a.model, strconv.Itoa(status)).Inc()
}

// meter is the metrics of one model's generations.
type meter struct {
	first, between, whole        prometheus.Observer
	tokensIn, tokensOut, inCache prometheus.Counter
}

func (m *metrics) of(model string) meter {
	if known, ok := m.meters.Load(model); ok {
		return known.(meter)
	}
	made := meter{
		first: m.first.WithLabelValues(model), between: m.between.WithLabelValues(model), whole: m.whole.WithLabelValues(model),
		tokensIn: m.tokensIn.WithLabelValues(model), tokensOut: m.tokensOut.WithLabelValues(model), inCache: m.cached.WithLabelValues(model),
	}
	m.meters.Store(model, made)
	return made
}

// delivered notes that tokens came for a choice.
func (m meter) delivered(gen *generation, c *choice, tokens int) {
	now := time.Now()
	switch {
	case tokens == 0:
		return
	case !c.last.IsZero():
		share := now.Sub(c.last).Seconds() / float64(tokens)
		for range tokens {
			m.between.Observe(share)
		}
	case c.index == 0:
		m.first.Observe(now.Sub(gen.began).Seconds())
	}
	c.last = now
}

// finished counts a generation that ended well.
func (m meter) finished(gen *generation) {
	u := gen.usage()
	m.whole.Observe(time.Since(gen.began).Seconds())
	m.tokensIn.Add(float64(u.Prompt))
	m.tokensOut.Add(float64(u.Completion))
	m.inCache.Add(float64(u.Cached))
}
