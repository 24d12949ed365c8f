package deployment

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	core "troupe/core/deployment"
	"troupe/core/schedule"
	"troupe/messages"
)

// TestReasonsAgree checks that the machine's reasons are those of messages.
func TestReasonsAgree(t *testing.T) {
	for reason, want := range map[core.Reason]messages.Reason{
		core.NoMemory:     messages.Reason_REASON_NO_MEMORY,
		core.LoadFailed:   messages.Reason_REASON_LOAD_FAILED,
		core.Unsupported:  messages.Reason_REASON_UNSUPPORTED,
		core.EngineFailed: messages.Reason_REASON_ENGINE_FAILED,
		core.Quarantined:  messages.Reason_REASON_QUARANTINED,
		core.FilesDiffer:  messages.Reason_REASON_WEIGHTS_DIFFER,
	} {
		if messages.Reason(reason) != want {
			t.Errorf("reason %d is %v, want %v", reason, messages.Reason(reason), want)
		}
	}
}

// TestFailuresPassThrough checks that a replica's refusal is reported unchanged.
func TestFailuresPassThrough(t *testing.T) {
	want := &messages.Refused{
		Reason: messages.Reason_REASON_NO_MEMORY, Detail: "too large", RetryAfter: durationpb.New(time.Second),
		Memory: &messages.MemoryShortage{Model: "p", Bytes: 1, Used: 2, Total: 3, Reserve: 4,
			Device: "a/gpu-0", Leave: []*messages.MemoryHolder{
				{Model: "x", Replicas: []string{"x-0"}, Bytes: 5, Command: schedule.Holder{Model: "x"}.ParkCommand()},
			}},
	}
	if got := refused(failureOf(want)); !proto.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if refused(failureOf(nil)) != nil {
		t.Error("no failure became one")
	}
}

// TestStoredLevels checks that a deployment that was woken in vain is stored as parked again, and a woken one without
// a level.
func TestStoredLevels(t *testing.T) {
	for level, want := range map[core.Level]messages.Level{
		core.Parked:  messages.Level_LEVEL_PARKED,
		core.NoLevel: messages.Level_LEVEL_UNSPECIFIED,
	} {
		if got := storedLevel(level); got != want {
			t.Errorf("level %v is stored as %v, want %v", level, got, want)
		}
	}
}

// TestReplicaSpecPassesThrough checks that a running replica's spec is the one with which it was
// started, and that one of an earlier version has the defaults.
func TestReplicaSpecPassesThrough(t *testing.T) {
	spec := specOf(&messages.DeploymentSpec{
		Path: "p", BlockTokens: proto.Uint32(16), KvBlocks: proto.Uint32(1), MaxSequences: proto.Uint32(2),
		MaxWaiting: proto.Uint32(3), StepTokens: proto.Uint32(4),
		Priority:     messages.Priority_PRIORITY_BATCH.Enum(),
		AdapterPages: proto.Uint32(5), RevisionDigest: "d", Deploy: 6,
	})
	want := core.ReplicaSpec{
		Settings: spec.Settings, Name: "m-0", Model: "m", At: core.Location{Node: "a", GPU: "gpu-0"},
		Revision: spec.Revision,
	}
	sent := replicaSpec(want)
	if got := replicaSpecOf(sent); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	sent.MaxAdapters, sent.MaxAdapterRank = 0, 0
	if got := replicaSpecOf(sent); got != want {
		t.Errorf("of an earlier version: got %+v, want %+v", got, want)
	}
}
