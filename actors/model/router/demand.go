package router

import (
	"maps"
	"slices"

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

// figures returns the demand for a model at all gateways.
func (r reports) figures(model string) (all demand.Figures) {
	for _, node := range slices.Sorted(maps.Keys(r.demand)) {
		d := r.demand[node]
		all.Merge(demand.Figures{Observed: d.report.GetObserved().AsDuration()})
		if m := d.models[model]; m != nil {
			all.Merge(figuresOf(m))
		}
	}
	return all
}

// figuresOf returns the figures of a report. A sketch that cannot be read is unknown.
func figuresOf(m *messages.ModelDemand) demand.Figures {
	f := demand.Figures{
		Arrivals: m.GetArrivals(), Recent: m.GetRecent(), Finished: m.GetFinished(), Refused: m.GetRefused(),
	}
	f.TTFT, _ = demand.Decode(m.GetTtft())
	f.TPOT, _ = demand.Decode(m.GetTpot())
	f.Prompt, _ = demand.Decode(m.GetPromptTokens())
	f.Output, _ = demand.Decode(m.GetOutputTokens())
	return f
}

// demandOf returns the demand for the model of a status, or nil if no gateway has reported any.
func (r reports) demandOf(model string, s *messages.DeploymentStatus) *messages.Demand {
	f := r.figures(model)
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
