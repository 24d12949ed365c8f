package messages

import "google.golang.org/protobuf/proto"

// DefaultAdapters is the default of max_adapters: the distinct adapters of a step.
const DefaultAdapters = 32

// Complete returns a copy of the deployment with every absent field set to its default.
func (s *DeploymentSpec) Complete() *DeploymentSpec {
	s = proto.CloneOf(s)
	least := s.GetMinReplicas()
	if s.MinReplicas != nil {
		least = max(1, least) // with an explicit minimum of 0, a request may wake it
	}
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
		{&s.MinReplicas, s.GetReplicas()}, {&s.MaxReplicas, max(s.GetReplicas(), least)},
		{&s.IdleAfter, 0},
	} {
		if *f.field == nil {
			*f.field = new(f.byDefault)
		}
	}
	return s
}

// Bounds returns the number of replicas and its bounds. An absent number of replicas is 1.
func (s *DeploymentSpec) Bounds() (replicas, least, most int) {
	replicas = 1
	if s != nil && s.Replicas != nil {
		replicas = int(*s.Replicas)
	}
	return replicas, int(s.GetMinReplicas()), int(s.GetMaxReplicas())
}

// Wanted returns the number of replicas without those that are preempted.
func (s *DeploymentSpec) Wanted() uint32 {
	return s.GetReplicas() - min(s.GetReplicas(), uint32(len(s.GetPreemptions())))
}

// Preempted reports whether all replicas of the deployment are preempted, so that only an operator
// can start them.
func (s *DeploymentSpec) Preempted() bool { return s.GetReplicas() > 0 && s.Wanted() == 0 }

// LevelOf returns the wanted level of a replica.
func (s *DeploymentSpec) LevelOf(replica string) Level {
	if l := s.GetReplicaLevels()[replica]; l != Level_LEVEL_UNSPECIFIED {
		return l
	}
	if l := s.GetLevel(); l != Level_LEVEL_UNSPECIFIED {
		return l
	}
	return Level_LEVEL_ACTIVE
}

// Held reports whether an operator has set a level, so that the planner leaves the deployment alone.
func (s *DeploymentSpec) Held() bool {
	return s.GetLevel() != Level_LEVEL_UNSPECIFIED || len(s.GetReplicaLevels()) > 0
}
