package planner

import (
	"troupe/core/cost"
	core "troupe/core/planner"
	"troupe/messages"
)

// kindsOf returns the kind of each device that answered.
func kindsOf(devices []core.Device) map[string]string {
	kinds := make(map[string]string)
	for _, d := range devices {
		if d.Kind != "" {
			kinds[d.Name] = d.Kind
		}
	}
	return kinds
}

// capacitiesOf returns the requests per second that 1, 2 and so on replicas of each deployment serve within the SLO,
// for the present lengths of prompts and outputs. It leaves out deployments with an unknown figure.
func capacitiesOf(view *messages.ClusterView, kinds map[string]string,
	costs func(string, *messages.DeploymentSpec, int64) (cost.Steps, bool),
) map[string][]float64 {
	all := make(map[string][]float64)
	if costs == nil {
		return all
	}
	for _, d := range view.GetDeployments() {
		if rates := ratesOf(d, kinds, costs); len(rates) > 0 {
			all[d.GetSpec().GetName()] = rates
		}
	}
	return all
}

// ratesOf returns the capacities of a deployment, or nil if they are unknown.
func ratesOf(d *messages.DeploymentStatus, kinds map[string]string,
	costs func(string, *messages.DeploymentSpec, int64) (cost.Steps, bool),
) []float64 {
	seen, slo := d.GetDemand(), SLOOf(d.GetSpec())
	q := cost.Requests{Prompt: lengthsOf(seen.GetPromptTokens()), Output: lengthsOf(seen.GetOutputTokens()),
		TTFT: slo.TTFT, TPOT: slo.TPOT}
	var serving []cost.Replica
	for _, r := range d.GetReplicas() {
		q.Computed, q.Cached = q.Computed+r.GetTokensIn(), q.Cached+r.GetTokensCached()
		if r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING {
			continue
		}
		steps, known := costs(kinds[deviceName(r.GetNode(), r.GetGpu())], d.GetSpec(), int64(d.GetNeed().GetWeights()))
		serving = append(serving, cost.Replica{Steps: steps, Known: known, Places: int(r.GetMaxSequences()),
			StepTokens: int(r.GetStepTokens()), KVTokens: float64(r.GetKvBlocks()) * float64(r.GetBlockTokens())})
	}
	_, _, most := d.GetSpec().Bounds()
	return cost.LeastCapacities(q, serving, most)
}

func lengthsOf(q *messages.Quantiles) cost.Lengths {
	return cost.Lengths{Count: q.GetCount(), Mean: q.GetMean(), P99: q.GetP99()}
}
