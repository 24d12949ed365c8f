package tiering

import (
	"fmt"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/exporter"
	"troupe/actors/supervise"
	"troupe/core/export"
	"troupe/core/kv"
	"troupe/core/offload"
	"troupe/core/replica"
	"troupe/messages"
)

// core/offload decides which blocks are copied to the tier below HBM and carries out the operator's
// commands. The copier, a child actor, copies the blocks. core/export decides which blocks other
// replicas receive. The messages and calls in this file are the events of these machines.

// offloads is the state that the replica keeps for these machines.
type offloads struct {
	machine  *offload.Machine
	exports  *export.Machine
	exporter *exporter.Exporter
}

// Notes, which the replica sends to itself.
type (
	offloadRetry struct{}
	exportDone   struct {
		id    string
		fault string // error; empty if all blocks were sent
	}
)

// OnNote handles a note of this incarnation.
func (t *Tiering) OnNote(ctx actor.Context, note any) {
	switch n := note.(type) {
	case offloadRetry:
		t.performOffload(ctx, t.offloads.machine.Retry())
	case exportDone:
		t.onExportDone(ctx, n)
	default:
		panic(fmt.Sprintf("tiering: unknown note %T", note))
	}
}

// openOffloads starts the machines. They refuse everything until the blocks are adopted.
func (t *Tiering) openOffloads(adopted bool) {
	l := t.kvTiers
	cfg := offload.Config{Replica: t.Spec.GetName(), Node: t.Spec.GetNode(), Number: t.Incarnation << 32}
	if l != nil {
		cfg.Remote, cfg.Digest, cfg.Watermark, cfg.IdleSteps = true, l.ready, l.Watermark, l.IdleSteps
		if len(l.Lower) > 0 {
			cfg.Tier = l.Lower[0].Name
		}
	}
	source := exporter.MemorySource{}
	if l != nil {
		source.Memory = l.down
	}
	t.offloads = offloads{
		machine: offload.New(cfg), exports: export.New(t.exportConfig(adopted)),
		exporter: exporter.New(exporter.Config{
			Plane: t.Plane, Source: source, Life: t.Life, Log: t.Log,
			Ended: func(id string, _ []kv.Hash, fault string) any { return t.Note(exportDone{id, fault}) },
		}),
	}
}

// exportConfig describes the replica as a holder of blocks.
func (t *Tiering) exportConfig(adopted bool) export.Config {
	l := t.kvTiers
	cfg := export.Config{Name: "replica " + t.Spec.GetName(), NotReady: !adopted, RetryAfter: replica.RetryQueueFull}
	switch {
	case !adopted:
		cfg.RetryAfter = replica.RetryAfter
	case l == nil:
		cfg.Unsupported = "its node has no KV tiers"
	case !l.ready:
		cfg.Unsupported = "the files of its model have no digest"
	case t.Plane == nil:
		cfg.Unsupported = "it has no data plane"
	default:
		cfg.Own = &export.Own{Space: l.namespace, Bytes: l.down.BlockBytes(), Layout: l.down.Layout()}
	}
	return cfg
}

// tickOffload reports that no step is in flight.
func (t *Tiering) tickOffload(ctx actor.Context) {
	s := t.Machine.Pool().Stats()
	t.performOffload(ctx, t.offloads.machine.Tick(offload.Tick{
		Steps: t.Machine.Steps(), Allocations: s.Allocations, Blocks: s.Blocks, AllBlocks: t.Machine.Model().Blocks,
	}))
}

func (t *Tiering) OnCopiedDown(ctx actor.Context, msg *messages.CopyBlocksDownResult) {
	if msg.GetDetail() != "" {
		t.Log.Warn().Str("error", msg.GetDetail()).Msg("offload failed")
	}
	t.performOffload(ctx, t.offloads.machine.Copied(msg.GetCopy(), msg.GetStored(), msg.GetDetail(),
		supervise.Now(ctx)))
}

func (t *Tiering) OnOffloadBlocks(ctx actor.Context, msg *messages.OffloadBlocks) {
	t.performOffload(ctx, t.offloads.machine.Offload(msg.GetRequestId(), senderOf(ctx), t.Machine.Ready(),
		supervise.Now(ctx)))
}

// Save copies all blocks to the tier below HBM. BlocksMoved answers to this actor.
func (t *Tiering) Save(ctx actor.Context) {
	self := offload.Actor{Address: ctx.Self().GetAddress(), ID: ctx.Self().GetId()}
	t.performOffload(ctx, t.offloads.machine.Offload("preempt", self, t.Machine.Ready(), supervise.Now(ctx)))
}

func (t *Tiering) OnRestoreBlocks(ctx actor.Context, msg *messages.RestoreBlocks) {
	t.performOffload(ctx, t.offloads.machine.Restore(msg.GetRequestId(), senderOf(ctx), t.Machine.Ready()))
}

func (t *Tiering) OnFlushBlocks(ctx actor.Context, msg *messages.FlushBlocks) {
	t.performOffload(ctx, t.offloads.machine.Flush(msg.GetRequestId(), senderOf(ctx), t.Machine.Ready()))
}

// SyncPins sends the model's pins to the tiers again, and applies them if they have changed.
func (t *Tiering) SyncPins(ctx actor.Context) {
	if t.Pins != nil {
		version, _ := t.Pins()
		t.performOffload(ctx, t.offloads.machine.SyncPins(version))
	}
}

// OnLeaseBlocks sends another replica the leading blocks of a prompt that are in HBM.
func (t *Tiering) OnLeaseBlocks(ctx actor.Context, msg *messages.LeaseBlocks) {
	t.performExport(ctx, t.offloads.exports.Lease(exporter.RequestOf(ctx.Sender(), msg)))
}

func (t *Tiering) OnReleaseBlocks(ctx actor.Context, msg *messages.ReleaseBlocks) {
	t.performExport(ctx, t.offloads.exports.Release(msg.GetRequestId()))
}

func (t *Tiering) onExportDone(ctx actor.Context, n exportDone) {
	if t.Machine.Ready() {
		t.performExport(ctx, t.offloads.exports.Ended(n.id, nil, n.fault))
		t.host.Advance(ctx)
	}
}

func senderOf(ctx actor.Context) offload.Actor {
	return offload.Actor{Address: ctx.Sender().GetAddress(), ID: ctx.Sender().GetId()}
}
