package planner

import (
	"math"

	"troupe/core/cost"
	core "troupe/core/planner"
	"troupe/messages"
)

// leastFinished is the least number of finished requests in the last minute by which the lengths of prompts and
// outputs count as known.
const leastFinished = 20

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

// capacitiesOf returns the requests per second that a replica of each deployment serves within the SLO, for the
// present lengths of prompts and outputs. It leaves out deployments with an unknown figure.
func capacitiesOf(view *messages.ClusterView, kinds map[string]string,
	costs func(string, *messages.DeploymentSpec, int64) (cost.Steps, bool),
) map[string]float64 {
	all := make(map[string]float64)
	if costs == nil {
		return all
	}
	for _, d := range view.GetDeployments() {
		if rate := capacityOf(d, kinds, costs); rate > 0 {
			all[d.GetSpec().GetName()] = rate
		}
	}
	return all
}

// capacityOf returns the least capacity of the replicas that serve, or 0 if it is unknown.
func capacityOf(d *messages.DeploymentStatus, kinds map[string]string,
	costs func(string, *messages.DeploymentSpec, int64) (cost.Steps, bool),
) float64 {
	seen, slo := d.GetDemand(), SLOOf(d.GetSpec())
	if seen.GetPromptTokens().GetCount() < leastFinished || seen.GetOutputTokens().GetCount() < leastFinished {
		return 0
	}
	least, cached := math.Inf(1), cachedShare(d.GetReplicas())
	for _, r := range d.GetReplicas() {
		if r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING {
			continue
		}
		steps, known := costs(kinds[deviceName(r.GetNode(), r.GetGpu())], d.GetSpec(), int64(d.GetNeed().GetWeights()))
		if !known {
			return 0
		}
		least = min(least, steps.Capacity(cost.Load{
			Prompt: seen.GetPromptTokens().GetMean(), LongPrompt: seen.GetPromptTokens().GetP99(),
			Cached: cached, Output: seen.GetOutputTokens().GetMean(), TTFT: slo.TTFT, TPOT: slo.TPOT,
			Places: int(r.GetMaxSequences()), StepTokens: int(r.GetStepTokens()),
			KVTokens: float64(r.GetKvBlocks()) * float64(r.GetBlockTokens()),
		}))
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// cachedShare returns the share of prompt tokens that replicas found in their KV cache since they started.
func cachedShare(replicas []*messages.ReplicaStatus) float64 {
	computed, cached := 0.0, 0.0
	for _, r := range replicas {
		computed, cached = computed+float64(r.GetTokensIn()), cached+float64(r.GetTokensCached())
	}
	if cached == 0 {
		return 0
	}
	return cached / (computed + cached)
}
