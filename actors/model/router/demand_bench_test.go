package router

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/demand"
	"troupe/messages"
)

// demandFor returns the report of a node's gateway with demand for so many models: 100 requests for each.
func demandFor(models int) *messages.DemandReported {
	random := rand.New(rand.NewPCG(1, 2))
	report := &messages.DemandReported{Observed: durationpb.New(demand.Length)}
	for i := range models {
		var ttft, tpot, prompt, output demand.Sketch
		for range 100 {
			ttft.Add(0.2 * random.ExpFloat64())
			tpot.Add(0.02 * (1 + random.Float64()))
			prompt.Add(float64(1 + random.IntN(4096)))
			output.Add(float64(1 + random.IntN(512)))
		}
		report.Models = append(report.Models, &messages.ModelDemand{
			Model: fmt.Sprintf("model-%d", i), Arrivals: 100, Finished: 100,
			Ttft: ttft.Encode(), Tpot: tpot.Encode(), PromptTokens: prompt.Encode(), OutputTokens: output.Encode(),
		})
	}
	return report
}

// BenchmarkDemand measures how long it takes to merge the demand of three nodes for all models, as for one
// GetClusterView.
func BenchmarkDemand(b *testing.B) {
	for _, models := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("models=%d", models), func(b *testing.B) {
			all := make(gateways)
			for node := range 3 {
				all[fmt.Sprintf("n%d", node)] = newNodeDemand(demandFor(models))
			}
			var statuses []*messages.DeploymentStatus
			for i := range models {
				statuses = append(statuses, &messages.DeploymentStatus{Spec: &messages.DeploymentSpec{
					Name: fmt.Sprintf("model-%d", i)}})
			}
			b.ReportAllocs()
			for b.Loop() {
				var f demand.Figures
				for _, s := range statuses {
					s.Demand = all.demandOf(s, &f)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e3/float64(b.N), "ms/ask")
		})
	}
}
