package router

import (
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/demand"
	"troupe/messages"
)

// nodeDemand is the demand at the gateway of a node.
type nodeDemand struct {
	report *messages.DemandReported
	models map[string]*messages.ModelDemand // those of the report by name
}

func newNodeDemand(report *messages.DemandReported) nodeDemand {
	d := nodeDemand{report, make(map[string]*messages.ModelDemand, len(report.GetModels()))}
	for _, m := range report.GetModels() {
		d.models[m.GetModel()] = m
	}
	return d
}

// demandReported returns the demand at a gateway in a message.
func demandReported(message any) *messages.DemandReported {
	if msg, ok := message.(*messages.RoutesAnnounced); ok {
		return msg.GetDemand()
	}
	return message.(*messages.DemandReported)
}

// gateways has the demand at the gateway of each node.
type gateways map[string]nodeDemand

// figures fills f with the demand for a model at all gateways. It reuses the memory of f.
func (g gateways) figures(model string, f *demand.Figures) {
	f.Reset()
	for _, node := range slices.Sorted(maps.Keys(g)) {
		f.Merge(demand.Figures{Observed: g[node].report.GetObserved().AsDuration()})
		if m := g[node].models[model]; m != nil {
			mergeDemand(f, m)
		}
	}
}

// mergeDemand adds the figures of a report. The values of a sketch that cannot be read are left out.
func mergeDemand(f *demand.Figures, m *messages.ModelDemand) {
	f.Merge(demand.Figures{
		Arrivals: m.GetArrivals(), Recent: m.GetRecent(), Finished: m.GetFinished(), Refused: m.GetRefused(),
	})
	_ = f.TTFT.MergeEncoded(m.GetTtft())
	_ = f.TPOT.MergeEncoded(m.GetTpot())
	_ = f.Prompt.MergeEncoded(m.GetPromptTokens())
	_ = f.Output.MergeEncoded(m.GetOutputTokens())
}

// demandOf returns the demand for the model of a status, or nil if no gateway has reported any. It reuses the memory of
// f.
func (g gateways) demandOf(s *messages.DeploymentStatus, f *demand.Figures) *messages.Demand {
	g.figures(s.GetSpec().GetName(), f)
	rate, known := f.Rate()
	if !known {
		return nil
	}
	d := &messages.Demand{
		Observed: durationpb.New(f.Observed), Arrivals: f.Arrivals, ArrivalsPerSecond: rate,
		Refused: f.Refused, Finished: f.Finished, Queued: uint64(s.GetWaitingToWake()),
		Ttft: quantiles(f.TTFT), Tpot: quantiles(f.TPOT),
		PromptTokens: quantiles(f.Prompt), OutputTokens: quantiles(f.Output),
	}
	if f.Observed >= demand.RecentSeconds*time.Second {
		d.RecentPerSecond = new(float64(f.Recent) / demand.RecentSeconds)
	}
	for _, replica := range s.GetReplicas() {
		d.Queued += uint64(replica.GetWaiting())
	}
	return d
}

// quantiles describes a distribution; nil: it is not known.
func quantiles(s demand.Sketch) *messages.Quantiles {
	mean, known := s.Mean()
	if !known {
		return nil
	}
	at := func(q float64) float64 {
		value, _ := s.Quantile(q)
		return value
	}
	return &messages.Quantiles{Count: s.Count(), Mean: mean, P50: at(0.5), P90: at(0.9), P99: at(0.99)}
}
