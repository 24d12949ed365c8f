package wire

import (
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/core/replica"
	"troupe/messages"
)

// State converts the state of a replica.
func State(s replica.State) messages.ReplicaState {
	switch s {
	case replica.Serving:
		return messages.ReplicaState_REPLICA_STATE_SERVING
	case replica.Suspending:
		return messages.ReplicaState_REPLICA_STATE_SUSPENDING
	case replica.Standby:
		return messages.ReplicaState_REPLICA_STATE_STANDBY
	case replica.Draining, replica.Saving, replica.Saved:
		return messages.ReplicaState_REPLICA_STATE_DRAINING
	case replica.Failed:
		return messages.ReplicaState_REPLICA_STATE_FAILED
	}
	return messages.ReplicaState_REPLICA_STATE_LOADING
}

// level returns the level of a replica in a state.
func level(s replica.State) messages.Level {
	switch s {
	case replica.Serving, replica.Suspending, replica.Draining:
		return messages.Level_LEVEL_ACTIVE
	case replica.Standby:
		return messages.Level_LEVEL_STANDBY
	}
	return messages.Level_LEVEL_UNSPECIFIED
}

// Status converts the status of a replica.
func Status(r replica.Status, spec *messages.ReplicaSpec, m *messages.ModelLoaded) *messages.ReplicaStatus {
	s := &messages.ReplicaStatus{
		Name: spec.GetName(), Model: spec.GetModel(), Gpu: spec.GetGpu(), Node: spec.GetNode(),
		State: State(r.State), Level: level(r.State),
		Steps: r.Steps, StepTime: durationpb.New(r.Totals.Use.Steps), TokensIn: r.Totals.TokensIn,
		TokensOut: r.Totals.TokensOut, TokensCached: r.Totals.TokensCached, Preemptions: r.Totals.Preemptions,
		Load:         m.GetMetrics(),
		MaxSequences: spec.GetMaxSequences(), StepTokens: spec.GetStepTokens(), BlockTokens: spec.GetBlockTokens(),
		MigratedIn: r.Totals.MigratedIn, MigratedOut: r.Totals.MigratedOut,
		SequencesNotFinite: r.Totals.NotFinite, NotFinite: r.LastNotFinite,
		WeightsDigest: m.GetWeightsDigest(), RevisionDigest: m.GetRevisionDigest(),
		FoundRevision: r.FoundRevision, FolderFault: r.FolderFault,
		HungSteps: r.Totals.HungSteps, CanaryFailures: r.Totals.CanaryFailures,
		Verified: r.Totals.Verified,
	}
	if f := r.Fault; f != nil {
		s.Fault = &messages.ReplicaFault{Detail: f.Detail, Since: timestamppb.New(f.Since), Final: f.Final,
			Corrupt: f.Corrupt}
	}
	s.Departures = Departures(r.Departures)
	if r.TakesAdapters {
		s.Adapters, s.AdaptersAwaited = Held(r.Adapters), uint32(r.Awaited)
	}
	if r.Mapped {
		s.Running, s.Waiting = uint32(r.Running), uint32(r.Waiting)
		s.KvBlocksAlone = m.GetKvBlocksAlone()
		s.KvBlocks, s.KvBlocksFree = uint32(r.Blocks.Blocks), uint32(r.Blocks.Free)
		s.KvBlocksCached = uint32(r.Blocks.Cached)
		s.KvHits, s.KvMisses, s.KvEvictions = r.Blocks.Hits, r.Blocks.Misses, r.Blocks.Evictions
		s.KvBlocksPinned, s.KvBlockBytes = uint32(r.PinnedBlocks), m.GetKvBlockBytes()
	}
	return s
}

// KVReport converts a report of the KV memory.
func KVReport(
	e replica.ReportKV, lease string, started uint64, priority messages.PriorityClass,
) *messages.KVReport {
	msg := &messages.KVReport{Lease: lease, Started: started, Blocks: uint32(e.Blocks), MinBlocks: uint32(e.Least),
		WantedBlocks: uint32(e.Wanted), Priority: priority, Standby: e.Standby, StandbyWanted: e.StandbyWanted,
		StepTime: durationpb.New(e.Use.Steps), CountedTime: durationpb.New(e.Use.Counted),
		LeastTime: durationpb.New(e.Use.Least), Flops: e.Use.FLOPs, Bytes: e.Use.Bytes,
		Serving: e.Serving, Graphs: uint32(e.Engine.Graphs)}
	if !e.Engine.Since.IsZero() {
		msg.EngineSince = timestamppb.New(e.Engine.Since)
	}
	if e.Engine.Graphs > 0 {
		msg.Capture = durationpb.New(e.Engine.Took)
	}
	if !e.LastUsed.IsZero() {
		msg.LastUsed = timestamppb.New(e.LastUsed)
	}
	if e.Verify > 0 {
		msg.Verify = durationpb.New(e.Verify)
	}
	return msg
}

// Announcement converts an announcement; the sender adds the status.
func Announcement(e replica.Announce) *messages.ReplicaAnnounced {
	return &messages.ReplicaAnnounced{Evicted: e.Evicted, Committed: e.Committed, Snapshot: e.Snapshot}
}

// Departures converts counts of sequences that have left; nil if none has.
func Departures(d replica.Departures) *messages.DepartureCounts {
	if d == (replica.Departures{}) {
		return nil
	}
	return &messages.DepartureCounts{Migrated: uint32(d.Migrated), Finished: uint32(d.Finished),
		Requeued: uint32(d.Requeued), Saved: uint32(d.Saved)}
}
