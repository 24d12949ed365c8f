package gpu

import (
	"errors"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	core "troupe/core/device"
	"troupe/core/quarantine"
	weights "troupe/core/residency"
	"troupe/cuda"
	"troupe/engine"
	"troupe/engine/residency"
	"troupe/messages"
)

var fates = map[messages.WeightsFate]weights.Fate{
	messages.WeightsFate_WEIGHTS_FATE_SPARE: weights.Spare,
	messages.WeightsFate_WEIGHTS_FATE_DROP:  weights.Drop,
	messages.WeightsFate_WEIGHTS_FATE_PARK:  weights.Park,

	messages.WeightsFate_WEIGHTS_FATE_PARK_OR_KEEP: weights.ParkOrKeep,
}

var levels = map[weights.Level]messages.Level{
	weights.Cold:    messages.Level_LEVEL_COLD,
	weights.Parked:  messages.Level_LEVEL_PARKED,
	weights.Standby: messages.Level_LEVEL_STANDBY,
	weights.Active:  messages.Level_LEVEL_ACTIVE,
}

// actorOf returns the address of an actor, or the zero value for nil.
func actorOf(pid *actor.PID) core.Actor {
	return core.Actor{Address: pid.GetAddress(), ID: pid.GetId()}
}

// command is a message with a request ID.
type command interface{ GetRequestId() string }

func requestOf(ctx actor.Context, msg command) core.Request {
	return core.Request{ID: msg.GetRequestId(), From: actorOf(ctx.Sender())}
}

func healthRequestOf(ctx actor.Context, msg command) quarantine.Request {
	return quarantine.Request{ID: msg.GetRequestId(), From: quarantine.Actor(actorOf(ctx.Sender()))}
}

func specOf(msg *messages.LoadModel) core.Spec {
	return core.Spec{
		Lease: msg.GetLease(), Path: msg.GetPath(), Model: msg.GetModel(), BlockTokens: int(msg.GetBlockTokens()),
		Blocks: int(msg.GetKvBlocks()), StepTokens: int(msg.GetStepTokens()),
		MaxSequences: int(msg.GetMaxSequences()), MaxAdapters: int(msg.GetMaxAdapters()),
		MaxRank: int(msg.GetMaxAdapterRank()), AdapterPages: int(msg.GetAdapterPages()),
		Revision: msg.GetRevisionDigest(), Deploy: msg.GetDeploy(), Started: msg.GetStarted(),
	}
}

// loadSpecOf returns the spec of a load without the number of KV blocks.
func loadSpecOf(s core.Spec) engine.LoadSpec {
	return engine.LoadSpec{
		Lease: s.Lease, Path: s.Path, BlockTokens: s.BlockTokens, RequestedBlocks: s.Blocks,
		Limits: engine.Limits{
			StepTokens: s.StepTokens, MaxSequences: s.MaxSequences, MaxAdapters: s.MaxAdapters, MaxRank: s.MaxRank,
		},
		AdapterPages: s.AdapterPages, Revision: s.Revision, Deploy: s.Deploy,
	}
}

// sizeOf returns the memory that a model needs.
func sizeOf(info engine.ModelInfo, spec engine.LoadSpec) core.Size {
	spec.AdapterPages = 0 // counted by core.Memory
	return core.Size{
		Need: info.Need(spec), Weights: info.WeightBytes, Workspace: info.WorkspaceBytes(spec.Limits),
		Graphs:     info.GraphMemory(spec.Limits),
		BlockBytes: info.KVTokenBytes * int64(spec.BlockTokens), MaxBlocks: info.KVSize(spec).Max(),
		MaxAdapters: spec.Limits.MaxAdapters, PagesPerAdapter: info.AdapterPages(spec.Limits.MaxRank),
	}
}

func modelOf(m residency.Loaded) core.Model {
	return core.Model{
		Lease: m.Lease, Copy: m.Copy, Handle: m.Handle, Owner: ownerOf(m.Owner),
		Size: sizeOf(m.Info, m.LoadSpec), Blocks: m.KVBlocks, BlockBytes: m.KVBlockBytes,
		AdapterPages: m.AdapterPages, AdapterMin: m.AdapterMin,
		Weights: m.Digests.Weights, Revision: m.Digests.Revision, Deploy: m.Deploy,
		ContextTokens: m.Info.ContextTokens, Vocab: m.Info.Vocab, EOS: m.Info.EOS,
		From: m.From.Source, FromWhy: m.From.Why, Floor: m.From.Floor, Verify: m.From.Verify, Canary: m.Canary,
	}
}

// nameOf returns the name of an actor, from which ownerOf returns the actor.
func nameOf(a core.Actor) string { return a.Address + " " + a.ID }

func ownerOf(name string) core.Actor {
	address, id, _ := strings.Cut(name, " ")
	return core.Actor{Address: address, ID: id}
}

func reportOf(msg *messages.KVReport) core.Report {
	return core.Report{
		Blocks: int(msg.GetBlocks()), MinBlocks: int(msg.GetMinBlocks()), WantedBlocks: int(msg.GetWantedBlocks()),
		Priority: int(msg.GetPriority()), LastUsed: msg.GetLastUsed().AsTime().UnixNano(),
		Standby: msg.GetStandby(), StandbyWanted: msg.GetStandbyWanted(), Serving: msg.GetServing(),
		Engine: engineOf(msg),
	}
}

func engineOf(msg *messages.KVReport) core.Engine {
	e := core.Engine{Graphs: int(msg.GetGraphs()), Capture: msg.GetCapture().AsDuration()}
	if since := msg.GetEngineSince(); since != nil {
		e.Since = since.AsTime()
	}
	return e
}

// failureOf returns the failure of a job. If the revision found is not the requested one, the
// failure contains it.
func failureOf(err error) core.Failure {
	f := core.Failure{Detail: err.Error()}
	other := (*engine.RevisionMismatch)(nil)
	if errors.As(err, &other) {
		f.Found = other.Found.Revision
	}
	switch {
	case errors.Is(err, cuda.ErrOutOfMemory):
		f.Cause = core.OutOfMemory
	case other != nil:
		f.Cause = core.RevisionDiffers
	case errors.Is(err, cuda.ErrDeviceLost):
		f.Cause = core.DeviceLost
	case errors.Is(err, errors.ErrUnsupported):
		f.Cause = core.Unsupported
	}
	if u := (*residency.Unverified)(nil); errors.As(err, &u) {
		f.Unverified = &core.Unverified{Rejections: u.Rejections, Remedy: u.Remedy()}
	}
	return f
}
