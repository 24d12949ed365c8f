package planner

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/cost"
	"troupe/messages"
)

// TestCapacities checks that the capacities of a deployment are those of the slowest of its replicas that serve, up to
// its maximum, and that they are unknown without costs, lengths or replicas.
func TestCapacities(t *testing.T) {
	steps := map[string]cost.Steps{
		"fast": {FixedUS: 5000, PromptTokenUS: 10}, "slow": {FixedUS: 10_000, PromptTokenUS: 10},
	}
	costs := func(device string, _ *messages.DeploymentSpec, weights int64) (cost.Steps, bool) {
		s, known := steps[device]
		return s, known && weights == 7
	}
	lengths := func(mean float64, count uint64) *messages.Quantiles {
		return &messages.Quantiles{Count: count, Mean: mean, P99: 2 * mean}
	}
	replica := func(gpu string, state messages.ReplicaState) *messages.ReplicaStatus {
		return &messages.ReplicaStatus{Node: "a", Gpu: gpu, State: state, MaxSequences: 16, StepTokens: 1000,
			KvBlocks: 1000, BlockTokens: 16, TokensIn: 50, TokensCached: 50}
	}
	const serving, loading = messages.ReplicaState_REPLICA_STATE_SERVING, messages.ReplicaState_REPLICA_STATE_LOADING
	fast, slow := replica("gpu-0", serving), replica("gpu-1", serving)
	kinds := map[string]string{"a/gpu-0": "fast", "a/gpu-1": "slow"}
	want := func(device string) []float64 {
		return steps[device].Capacities(cost.Load{Prompt: 100, LongPrompt: 200, Output: 50, LongOutput: 100,
			TTFT: time.Second, Places: 16, StepTokens: 1000, KVTokens: 16_000, Cached: 0.5}, 3)
	}
	for name, test := range map[string]struct {
		count    uint64
		replicas []*messages.ReplicaStatus
		kinds    map[string]string
		want     []float64
	}{
		"one":             {20, []*messages.ReplicaStatus{fast}, kinds, want("fast")},
		"the least":       {20, []*messages.ReplicaStatus{fast, slow}, kinds, want("slow")},
		"not serving":     {20, []*messages.ReplicaStatus{fast, replica("gpu-1", loading)}, kinds, want("fast")},
		"no replicas":     {20, nil, kinds, nil},
		"few requests":    {19, []*messages.ReplicaStatus{fast}, kinds, nil},
		"unknown devices": {20, []*messages.ReplicaStatus{fast}, nil, nil},
	} {
		view := &messages.ClusterView{Deployments: []*messages.DeploymentStatus{{
			Spec: &messages.DeploymentSpec{Name: "m", Slo: &messages.Slo{Ttft: durationpb.New(time.Second)},
				MaxReplicas: new(uint32(3))},
			Need: &messages.ReplicaNeed{Weights: 7}, Replicas: test.replicas,
			Demand: &messages.Demand{PromptTokens: lengths(100, test.count), OutputTokens: lengths(50, test.count)},
		}}}
		all := capacitiesOf(view, test.kinds, costs)
		if got, known := all["m"]; !slices.Equal(got, test.want) || known != (len(test.want) > 0) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if want("fast")[0] <= want("slow")[0] || want("slow")[0] <= 0 {
		t.Errorf("capacities %v and %v", want("fast"), want("slow"))
	}
	if len(capacitiesOf(nil, kinds, nil)) != 0 {
		t.Error("capacities without costs")
	}
}
