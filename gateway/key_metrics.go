package gateway

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"troupe/core/quota"
	"troupe/gateway/apikey"
)

// keyCollector exports the usage of API keys at this gateway. Only keys in the key file have
// series.
type keyCollector struct {
	keys   *apikey.Keys
	shares *Quotas
}

var (
	keyRequests = keyMetric("requests_total", "Admitted requests of an API key.")
	keyRefused  = keyMetric("refused_total", "Requests of an API key refused by its limits, share or maximum priority.")
	keyPrompt   = keyMetric("prompt_tokens_total", "Prompt tokens of an API key.")
	keyOutput   = keyMetric("output_tokens_total", "Output tokens of an API key.")
	keyInFlight = keyMetric("requests_in_flight", "Requests of an API key in flight.")
	keyTokens   = keyMetric("tokens_in_flight",
		"Prompt tokens plus max_tokens of the requests of an API key in flight.")
)

func keyMetric(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("troupe_gateway_key_"+name, help, []string{"key"}, nil)
}

// Describe implements prometheus.Collector.
func (keyCollector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{keyRequests, keyRefused, keyPrompt, keyOutput, keyInFlight, keyTokens} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c keyCollector) Collect(to chan<- prometheus.Metric) {
	used := make(map[string]quota.Usage)
	for _, u := range c.shares.usage() {
		used[strings.TrimPrefix(u.Client, keyPrefix)] = u
	}
	for _, k := range c.keys.All() {
		u := used[k.Name]
		for desc, n := range map[*prometheus.Desc]int64{
			keyRequests: u.Totals.Requests, keyRefused: u.Totals.Refused,
			keyPrompt: u.Totals.PromptTokens, keyOutput: u.Totals.OutputTokens,
		} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), k.Name)
		}
		to <- prometheus.MustNewConstMetric(keyInFlight, prometheus.GaugeValue, float64(u.Requests), k.Name)
		to <- prometheus.MustNewConstMetric(keyTokens, prometheus.GaugeValue, float64(u.Tokens), k.Name)
	}
}
