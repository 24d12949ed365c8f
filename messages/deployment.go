package messages

import (
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
)

// DefaultAdapters is the default of max_adapters: the distinct adapters of a step.
const DefaultAdapters = 32

// Complete returns a copy of the deployment with every absent field set to its default. The
// class of requests and the SLO stay absent, since they follow the priority.
func (s *DeploymentSpec) Complete() *DeploymentSpec {
	s = proto.CloneOf(s)
	least := s.GetMinReplicas()
	if s.MinReplicas != nil {
		least = max(1, least) // with an explicit minimum of 0, a request may wake it
	}
	if s.GetPriority() == Priority_PRIORITY_UNSPECIFIED {
		s.Priority = Priority_PRIORITY_STANDARD.Enum()
	}
	if s.Pinned == nil {
		s.Pinned = new(false)
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
		{&s.IdleAfter, 0}, {&s.WakeWait, 0}, {&s.TensorParallel, 1},
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

// Wanted returns the number of replicas without those that are preempted or parked one by one.
func (s *DeploymentSpec) Wanted() uint32 {
	return s.GetReplicas() - min(s.GetReplicas(), uint32(len(s.GetPreemptions())+len(s.ParkedReplicas())))
}

// Preempted reports whether all replicas of the deployment are preempted, or all but those that are
// parked, so that only an operator can start them.
func (s *DeploymentSpec) Preempted() bool {
	return s.GetReplicas() > 0 && s.Wanted() == 0 && len(s.GetPreemptions()) > 0
}

// ParkedReplicas returns the names of the replicas that are parked one by one.
func (s *DeploymentSpec) ParkedReplicas() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.GetReplicaLevels())) {
		if s.GetReplicaLevels()[name] == Level_LEVEL_PARKED && s.GetLevel() != Level_LEVEL_PARKED {
			names = append(names, name)
		}
	}
	return names
}

// Parks reports whether the deployment or one of its replicas is parked.
func (s *DeploymentSpec) Parks() bool {
	return s.GetLevel() == Level_LEVEL_PARKED || len(s.ParkedReplicas()) > 0
}

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
