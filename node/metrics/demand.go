package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"troupe/messages"
)

const demandScope = " at all gateways within the last minute, as this node knows."

var (
	demandRate = prometheus.NewDesc("troupe_demand_arrivals_per_second", "Sequences that arrive"+demandScope,
		[]string{"model"}, nil)
	demandQueued = prometheus.NewDesc("troupe_demand_queued_sequences",
		"Sequences that wait at replicas or until a replica serves, as this node knows.", []string{"model"}, nil)
	demandRefused = prometheus.NewDesc("troupe_demand_refused_sequences", "Refused sequences"+demandScope,
		[]string{"model"}, nil)
	demandTTFT = quantileDesc("troupe_demand_ttft_seconds", "Time to the first token")
	demandTPOT = quantileDesc("troupe_demand_tpot_seconds", "Time per output token after the first one")
	demandIn   = quantileDesc("troupe_demand_prompt_tokens", "Length of prompts")
	demandOut  = quantileDesc("troupe_demand_output_tokens", "Length of outputs")

	demandMetrics = []*prometheus.Desc{
		demandRate, demandQueued, demandRefused, demandTTFT, demandTPOT, demandIn, demandOut,
	}
)

func quantileDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc(name, help+demandScope, []string{"model", "quantile"}, nil)
}

// collectDemand collects the demand for each deployment that a router knows. Figures that are not known are
// omitted.
func collectDemand(to chan<- prometheus.Metric, view *messages.ClusterView) {
	for _, s := range view.GetDeployments() {
		name, d := s.GetSpec().GetName(), s.GetDemand()
		if d == nil {
			continue
		}
		sendGauge(to, demandRate, d.GetArrivalsPerSecond(), name)
		sendGauge(to, demandQueued, float64(d.GetQueued()), name)
		sendGauge(to, demandRefused, float64(d.GetRefused()), name)
		sendQuantiles(to, demandTTFT, d.GetTtft(), name)
		sendQuantiles(to, demandTPOT, d.GetTpot(), name)
		sendQuantiles(to, demandIn, d.GetPromptTokens(), name)
		sendQuantiles(to, demandOut, d.GetOutputTokens(), name)
	}
}

func sendQuantiles(to chan<- prometheus.Metric, desc *prometheus.Desc, q *messages.Quantiles, model string) {
	if q == nil {
		return
	}
	sendGauge(to, desc, q.GetP50(), model, "0.5")
	sendGauge(to, desc, q.GetP90(), model, "0.9")
	sendGauge(to, desc, q.GetP99(), model, "0.99")
}
