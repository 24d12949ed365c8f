package gateway

import (
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests   *prometheus.CounterVec
	inFlight   prometheus.Gauge
	firstToken *prometheus.HistogramVec
	interToken *prometheus.HistogramVec
	duration   *prometheus.HistogramVec
	tokensIn   *prometheus.CounterVec
	tokensOut  *prometheus.CounterVec
	cached     *prometheus.CounterVec
	adapters   *prometheus.CounterVec
	byModel    sync.Map // model -> modelMetrics
	counted    sync.Map // model -> true; models with a series in requests
}

func newMetrics(r *prometheus.Registry) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "troupe_gateway_requests_total",
			Help: "Responses by endpoint, model (empty if none was found) and HTTP status.",
		}, []string{"endpoint", "model", "status"}),
		inFlight: prometheus.NewGauge(
			prometheus.GaugeOpts{Name: "troupe_gateway_requests_in_flight", Help: "Requests in flight."}),
		firstToken: histogram("troupe_gateway_time_to_first_token_seconds",
			"Time from the request to its first token.", 0.001),
		interToken: histogram("troupe_gateway_inter_token_seconds",
			"Time between two tokens of a choice. Tokens that arrive together share the time since the last ones.",
			0.0001),
		duration: histogram("troupe_gateway_request_duration_seconds", "Time from the request to its last token.",
			0.001),
		tokensIn:  counter("troupe_gateway_prompt_tokens_total", "Prompt tokens of finished requests."),
		tokensOut: counter("troupe_gateway_output_tokens_total", "Output tokens of finished requests."),
		cached:    counter("troupe_gateway_cached_tokens_total", "Prompt tokens found in KV blocks."),
		adapters: counter("troupe_gateway_adapter_sequences_total",
			"Sequences that were served with an adapter; adapters.list counts them for each."),
	}
	r.MustRegister(m.requests, m.inFlight, m.firstToken, m.interToken, m.duration, m.tokensIn, m.tokensOut, m.cached,
		m.adapters)
	return m
}

func counter(name, help string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"model"})
}

// histogram returns a histogram with 20 buckets, each twice as wide as the previous one.
func histogram(name, help string, start float64) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 2, 20),
	}, []string{"model"})
}

func (m *metrics) countResponse(info requestInfo, status int) {
	if info.model != "" {
		m.counted.LoadOrStore(info.model, true)
	}
	m.requests.WithLabelValues(info.endpoint, info.model, strconv.Itoa(status)).Inc()
}

// retain drops the series of models that are not deployed.
func (m *metrics) retain(deployed map[string]bool) {
	m.counted.Range(func(model, _ any) bool {
		if !deployed[model.(string)] {
			m.counted.Delete(model)
			m.requests.DeletePartialMatch(prometheus.Labels{"model": model.(string)})
		}
		return true
	})
	m.byModel.Range(func(model, _ any) bool {
		if name := model.(string); !deployed[name] {
			m.byModel.Delete(name)
			for _, v := range []*prometheus.HistogramVec{m.firstToken, m.interToken, m.duration} {
				v.DeleteLabelValues(name)
			}
			for _, v := range []*prometheus.CounterVec{m.tokensIn, m.tokensOut, m.cached, m.adapters} {
				v.DeleteLabelValues(name)
			}
		}
		return true
	})
}

// modelMetrics are the metrics of one model.
type modelMetrics struct {
	firstToken, interToken, duration prometheus.Observer
	tokensIn, tokensOut, cached      prometheus.Counter
	adapterSequences                 prometheus.Counter
}

func (m *metrics) forModel(model string) modelMetrics {
	if known, ok := m.byModel.Load(model); ok {
		return known.(modelMetrics)
	}
	made := modelMetrics{
		firstToken: m.firstToken.WithLabelValues(model),
		interToken: m.interToken.WithLabelValues(model),
		duration:   m.duration.WithLabelValues(model),
		tokensIn:   m.tokensIn.WithLabelValues(model),
		tokensOut:  m.tokensOut.WithLabelValues(model),
		cached:     m.cached.WithLabelValues(model),

		adapterSequences: m.adapters.WithLabelValues(model),
	}
	m.byModel.Store(model, made)
	return made
}

// tokensDelivered records the latency of tokens that were delivered to a choice.
func (m modelMetrics) tokensDelivered(gen *generation, c *choice, tokens int) {
	now := gen.rt.Now()
	switch {
	case tokens == 0:
		return
	case !c.lastTokens.IsZero():
		share := now.Sub(c.lastTokens).Seconds() / float64(tokens)
		for range tokens {
			m.interToken.Observe(share)
		}
	case c.index == 0:
		m.firstToken.Observe(now.Sub(gen.began).Seconds())
	}
	c.lastTokens = now
}

// generationFinished records a generation whose choices have all finished.
func (m modelMetrics) generationFinished(gen *generation) {
	u := gen.usage()
	m.duration.Observe(gen.finished.Sub(gen.began).Seconds())
	m.tokensIn.Add(float64(u.Prompt))
	m.tokensOut.Add(float64(u.Completion))
	m.cached.Add(float64(u.Cached))
}
