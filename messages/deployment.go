package messages

import "google.golang.org/protobuf/proto"

// DefaultAdapters is how many different adapters a step may have where a deployment does not set max_adapters.
const DefaultAdapters = 32

// Complete returns the deployment with the default of every field that it lacks.
func (s *DeploymentSpec) Complete() *DeploymentSpec {
	s = proto.CloneOf(s)
	if s.GetPriority() == PriorityClass_PRIORITY_CLASS_UNSPECIFIED {
		s.Priority = PriorityClass_PRIORITY_CLASS_STANDARD.Enum()
	}
	if s.Replicas == nil {
		s.Replicas = new(max(1, s.GetMinReplicas()))
	}
	for _, f := range []struct {
		field     **uint32
		byDefault uint32
	}{
		{&s.MaxSequences, 64}, {&s.MaxWaiting, 1024}, {&s.StepTokens, 512}, {&s.BlockTokens, 16}, {&s.KvBlocks, 0},
		{&s.AdapterPages, 0}, {&s.MaxAdapters, DefaultAdapters}, {&s.MaxAdapterRank, DefaultAdapterRank},
		{&s.MinReplicas, s.GetReplicas()}, {&s.MaxReplicas, max(s.GetReplicas(), s.GetMinReplicas())},
	} {
		if *f.field == nil {
			*f.field = new(f.byDefault)
		}
	}
	return s
}

// Stopped reports whether the model is deployed with no replicas, and stays so until an operator starts it.
func (s *DeploymentSpec) Stopped() bool { return s != nil && s.Replicas != nil && *s.Replicas == 0 }
