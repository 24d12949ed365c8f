package deployment

import (
	"cmp"
	"slices"
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/backend"
	core "troupe/core/deployment"
	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/messages"
)

func pidOf(r core.Ref) *actor.PID { return actor.NewPID(r.Address, r.ID) }

func refOf(r *messages.ActorRef) core.Ref { return core.Ref{Address: r.GetAddress(), ID: r.GetId()} }

func actorRef(r core.Ref) *messages.ActorRef { return &messages.ActorRef{Address: r.Address, Id: r.ID} }

func selfRef(ctx actor.Context) *messages.ActorRef {
	return &messages.ActorRef{Address: ctx.Self().GetAddress(), Id: ctx.Self().GetId()}
}

func membersOf(msg *messages.MembersChanged) (all []core.Member) {
	for _, m := range msg.GetMembers() {
		up := m.GetState() == messages.MemberState_MEMBER_STATE_UP
		all = append(all, core.Member{
			Name: m.GetName(), ID: m.GetId(), GPUs: m.GetGpus(),
			Leaving:     m.GetState() == messages.MemberState_MEMBER_STATE_LEAVING,
			Schedulable: up && !slices.Contains(msg.GetDraining(), m.GetName()),
		})
	}
	return all
}

func departedOf(msg *messages.MembersChanged) (all []core.Departed) {
	for _, m := range msg.GetDeparted() {
		all = append(all, core.Departed{Name: m.GetName(), LastSeen: m.GetLastSeen().AsTime()})
	}
	return all
}

// specOf converts a stored deployment.
func specOf(s *messages.DeploymentSpec) core.Spec {
	return core.Spec{
		Planned: s.GetAssignments() != nil, Assigned: assignedOf(s), Withdrawn: s.GetAssignments().GetWithdrawn(),
		Settings: core.Settings{
			Engine: engineOf(s.GetEngine()),
			Path:   s.GetPath(), BlockTokens: s.GetBlockTokens(), KVBlocks: s.GetKvBlocks(),
			MaxSequences: s.GetMaxSequences(), MaxWaiting: s.GetMaxWaiting(), StepTokens: s.GetStepTokens(),
			Priority: int32(s.ReplicaClass()), AdapterPages: s.GetAdapterPages(),
			MaxAdapters:    cmp.Or(s.GetMaxAdapters(), messages.DefaultAdapters),
			MaxAdapterRank: cmp.Or(s.GetMaxAdapterRank(), messages.DefaultAdapterRank),
		},
		Replicas: int(s.GetReplicas()), Rest: schedule.RestOf(s.Bounds()), Sleeps: s.GetMinReplicas() == 0,
		Drop: s.GetDropWeights(), Level: levels[s.GetLevel()], Levels: levelsOf(s.GetReplicaLevels()),
		Revision:    schedule.Revision{Digest: s.GetRevisionDigest(), Deploy: s.GetDeploy()},
		Preemptions: preemptionsOf(s.GetPreemptions()),
	}
}

// engineOf returns the engine of a deployment or replica. The native one is the zero value.
func engineOf(e *messages.EngineSpec) backend.Spec {
	if e == nil {
		return backend.Spec{}
	}
	return backend.SpecOf(e.GetKind(), e.GetWithout())
}

func engineSpec(s backend.Spec) *messages.EngineSpec {
	if s == (backend.Spec{}) {
		return nil
	}
	return &messages.EngineSpec{Kind: string(s.Kind), Without: s.Without.Names()}
}

var levels = map[messages.Level]core.Level{
	messages.Level_LEVEL_COLD:    core.Cold,
	messages.Level_LEVEL_PARKED:  core.Parked,
	messages.Level_LEVEL_STANDBY: core.OnStandby,
	messages.Level_LEVEL_ACTIVE:  core.OnActive,
}

func levelsOf(all map[string]messages.Level) map[string]core.Level {
	of := make(map[string]core.Level, len(all))
	for replica, l := range all {
		of[replica] = levels[l]
	}
	return of
}

// replicaSpecOf converts the spec of a running replica. One that an earlier version started lacks
// the defaults.
func replicaSpecOf(s *messages.ReplicaSpec) core.ReplicaSpec {
	return core.ReplicaSpec{
		Settings: core.Settings{
			Engine: engineOf(s.GetEngine()),
			Path:   s.GetPath(), BlockTokens: s.GetBlockTokens(), KVBlocks: s.GetKvBlocks(),
			MaxSequences: s.GetMaxSequences(), MaxWaiting: s.GetMaxWaiting(), StepTokens: s.GetStepTokens(),
			Priority: int32(s.GetPriority()), AdapterPages: s.GetAdapterPages(),
			MaxAdapters:    cmp.Or(s.GetMaxAdapters(), messages.DefaultAdapters),
			MaxAdapterRank: cmp.Or(s.GetMaxAdapterRank(), messages.DefaultAdapterRank),
		},
		Name: s.GetName(), Model: s.GetModel(), At: core.Location{Node: s.GetNode(), GPU: s.GetGpu()},
		Revision: schedule.Revision{Digest: s.GetRevisionDigest(), Deploy: s.GetDeploy()},
		Standby:  s.GetLevel() == messages.Level_LEVEL_STANDBY,
	}
}

// storedLevel returns the level of a deployment that was woken, or was woken in vain.
func storedLevel(l core.Level) messages.Level {
	if l == core.Parked {
		return messages.Level_LEVEL_PARKED
	}
	return messages.Level_LEVEL_UNSPECIFIED
}

// levelOf returns the level in a command to a replica.
func levelOf(standby bool) messages.Level {
	if standby {
		return messages.Level_LEVEL_STANDBY
	}
	return messages.Level_LEVEL_ACTIVE
}

func replicaSpec(s core.ReplicaSpec) *messages.ReplicaSpec {
	return &messages.ReplicaSpec{
		Name: s.Name, Model: s.Model, Path: s.Path, Node: s.At.Node, Gpu: s.At.GPU, BlockTokens: s.BlockTokens,
		KvBlocks: s.KVBlocks, MaxSequences: s.MaxSequences, MaxWaiting: s.MaxWaiting, StepTokens: s.StepTokens,
		Priority: messages.PriorityClass(s.Priority), AdapterPages: s.AdapterPages, MaxAdapters: s.MaxAdapters,
		MaxAdapterRank: s.MaxAdapterRank, RevisionDigest: s.Revision.Digest, Deploy: s.Revision.Deploy,
		Level: levelOf(s.Standby), Engine: engineSpec(s.Engine),
	}
}

var replicaStates = map[messages.ReplicaState]core.ReplicaState{
	messages.ReplicaState_REPLICA_STATE_LOADING:    core.ReplicaLoading,
	messages.ReplicaState_REPLICA_STATE_SERVING:    core.ReplicaServing,
	messages.ReplicaState_REPLICA_STATE_SUSPENDING: core.ReplicaSuspending,
	messages.ReplicaState_REPLICA_STATE_STANDBY:    core.ReplicaStandby,
	messages.ReplicaState_REPLICA_STATE_DRAINING:   core.ReplicaDraining,
	messages.ReplicaState_REPLICA_STATE_FAILED:     core.ReplicaFailed,
}

func reportOf(s *messages.ReplicaStatus) core.Report {
	r := core.Report{
		Replica: s.GetName(), Actor: refOf(s.GetActor()), GPU: s.GetGpu(), State: replicaStates[s.GetState()],
		Load: int(s.GetRunning() + s.GetWaiting()), Weights: s.GetWeightsDigest(), Revision: s.GetRevisionDigest(),
		Found: s.GetFoundRevision(), FolderFault: s.GetFolderFault(), Departures: countsOf(s.GetDepartures()),
	}
	if f := s.GetFault(); f.GetFinal() {
		r.Fault = core.Fault{Detail: f.GetDetail(), Corrupt: f.GetCorrupt()}
	}
	return r
}

func failureOf(r *messages.Refused) *core.Failure {
	if r == nil {
		return nil
	}
	f := &core.Failure{
		Reason: core.Reason(r.GetReason()), Detail: r.GetDetail(), RetryAfter: r.GetRetryAfter().AsDuration(),
	}
	if m := r.GetMemory(); m != nil {
		f.Memory = core.Memory{
			Model: m.GetModel(), Bytes: int64(m.GetBytes()), Used: int64(m.GetUsed()), Total: int64(m.GetTotal()),
			Reserve: int64(m.GetReserve()), Evictable: int64(m.GetEvictable()), Room: roomOf(m),
		}
	}
	return f
}

// roomOf returns how an operator makes room for a model; nil: not by removing others.
func roomOf(m *messages.MemoryShortage) *core.Room {
	if len(m.GetLeave()) == 0 {
		return nil
	}
	node, gpu, _ := strings.Cut(m.GetDevice(), "/")
	room := &core.Room{At: core.Location{Node: node, GPU: gpu}}
	for _, h := range m.GetLeave() {
		room.Leave = append(room.Leave, schedule.Holder{
			Model: h.GetModel(), Replicas: h.GetReplicas(), Need: hbm.Need{Fixed: int64(h.GetBytes())},
		})
	}
	return room
}

func refused(f *core.Failure) *messages.Refused {
	if f == nil {
		return nil
	}
	r := &messages.Refused{Reason: messages.Reason(f.Reason), Detail: f.Detail}
	if f.RetryAfter > 0 {
		r.RetryAfter = durationpb.New(f.RetryAfter)
	}
	if m := f.Memory; m != (core.Memory{}) {
		r.Memory = &messages.MemoryShortage{
			Model: m.Model, Bytes: uint64(m.Bytes), Used: uint64(m.Used), Total: uint64(m.Total),
			Reserve: uint64(m.Reserve), Evictable: uint64(m.Evictable),
		}
		if m.Room != nil {
			r.Memory.Device = m.Room.At.String()
			for _, h := range m.Room.Leave {
				r.Memory.Leave = append(r.Memory.Leave, &messages.MemoryHolder{
					Model: h.Model, Replicas: h.Replicas, Bytes: uint64(h.Bytes()), Command: h.ParkCommand(),
				})
			}
		}
	}
	return r
}
