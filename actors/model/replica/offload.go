package replica

import (
	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/exporter"
	"troupe/actors/supervise"
	"troupe/core/export"
	"troupe/core/kv"
	"troupe/core/offload"
	"troupe/messages"
)

// core/offload decides what is copied to the tier below HBM and carries out the commands of
// operators, and the copier, a child actor, copies the blocks. core/export decides which blocks
// other replicas get. The messages and calls in this file are the machines' events.

// offloads is what the replica keeps for the machines.
type offloads struct {
	machine  *offload.Machine
	exports  *export.Machine
	exporter *exporter.Exporter
}

// offloadRetry and exportDone are messages to self.
type (
	offloadRetry struct{ incarnation uint64 }
	exportDone   struct {
		incarnation uint64
		id          string
		fault       string // what failed; empty if all blocks were sent
	}
)

// openOffloads starts the machines. Until the blocks are adopted, they refuse everything.
func (r *replica) openOffloads(adopted bool) {
	l := r.kvTiers
	cfg := offload.Config{Replica: r.Spec.GetName(), Node: r.Spec.GetNode(), Number: r.incarnation << 32}
	if l != nil {
		cfg.Remote, cfg.Digest, cfg.Watermark, cfg.IdleSteps = true, l.ready, l.Watermark, l.IdleSteps
		if len(l.Lower) > 0 {
			cfg.Tier = l.Lower[0].Name
		}
	}
	incarnation, source := r.incarnation, exporter.MemorySource{}
	if l != nil {
		source.Memory = l.down
	}
	r.offloads = offloads{
		machine: offload.New(cfg), exports: export.New(r.exportConfig(adopted)),
		exporter: exporter.New(exporter.Config{
			Plane: r.Bulk, Source: source, Life: r.life, Log: r.Log,
			Ended: func(id string, _ []kv.Hash, fault string) any { return &exportDone{incarnation, id, fault} },
		}),
	}
}

// exportConfig describes the replica as a holder of blocks.
func (r *replica) exportConfig(adopted bool) export.Config {
	l := r.kvTiers
	cfg := export.Config{Name: "replica " + r.Spec.GetName(), NotReady: !adopted, RetryAfter: retryQueueFull}
	switch {
	case !adopted:
		cfg.RetryAfter = retryAfter
	case l == nil:
		cfg.Unsupported = "its node has no KV tiers"
	case !l.ready:
		cfg.Unsupported = "the files of its model have no digest"
	case r.Bulk == nil:
		cfg.Unsupported = "it has no data plane"
	default:
		cfg.Own = &export.Own{Space: l.namespace, Bytes: l.down.BlockBytes(), Layout: l.down.Layout()}
	}
	return cfg
}

// tickOffload reports that no step is in flight.
func (r *replica) tickOffload(ctx actor.Context) {
	s := r.pool.Stats()
	r.performOffload(ctx, r.offloads.machine.Tick(offload.Tick{
		Steps: r.machine.Steps(), Allocations: s.Allocations, Blocks: s.Blocks, AllBlocks: int(r.model.GetKvBlocks()),
	}))
}

func (r *replica) onCopiedDown(ctx actor.Context, msg *messages.CopyBlocksDownResult) {
	if msg.GetDetail() != "" {
		r.Log.Warn().Str("error", msg.GetDetail()).Msg("offload failed")
	}
	r.performOffload(ctx, r.offloads.machine.Copied(msg.GetCopy(), msg.GetStored(), msg.GetDetail(),
		supervise.Now(ctx)))
}

func (r *replica) onOffloadRetry(ctx actor.Context, msg *offloadRetry) {
	if msg.incarnation == r.incarnation {
		r.performOffload(ctx, r.offloads.machine.Retry())
	}
}

func (r *replica) onOffloadBlocks(ctx actor.Context, msg *messages.OffloadBlocks) {
	r.performOffload(ctx, r.offloads.machine.Offload(msg.GetRequestId(), senderOf(ctx), r.machine.Ready(),
		supervise.Now(ctx)))
}

func (r *replica) onRestoreBlocks(ctx actor.Context, msg *messages.RestoreBlocks) {
	r.performOffload(ctx, r.offloads.machine.Restore(msg.GetRequestId(), senderOf(ctx), r.machine.Ready()))
}

func (r *replica) onFlushBlocks(ctx actor.Context, msg *messages.FlushBlocks) {
	r.performOffload(ctx, r.offloads.machine.Flush(msg.GetRequestId(), senderOf(ctx), r.machine.Ready()))
}

// syncKVPins repeats the model's pins to the tiers, and applies them if they have changed.
func (r *replica) syncKVPins(ctx actor.Context) {
	if r.Pins != nil {
		version, _ := r.Pins()
		r.performOffload(ctx, r.offloads.machine.SyncPins(version))
	}
}

// onLeaseBlocks sends the leading blocks of a prompt that are in HBM to another replica.
func (r *replica) onLeaseBlocks(ctx actor.Context, msg *messages.LeaseBlocks) {
	r.performExport(ctx, r.offloads.exports.Lease(exporter.RequestOf(ctx.Sender(), msg)))
}

func (r *replica) onReleaseBlocks(ctx actor.Context, msg *messages.ReleaseBlocks) {
	r.performExport(ctx, r.offloads.exports.Release(msg.GetRequestId()))
}

func (r *replica) onExportDone(ctx actor.Context, msg *exportDone) {
	if msg.incarnation == r.incarnation {
		r.performExport(ctx, r.offloads.exports.Ended(msg.id, nil, msg.fault))
		r.advance(ctx)
	}
}

func senderOf(ctx actor.Context) offload.Actor {
	return offload.Actor{Address: ctx.Sender().GetAddress(), ID: ctx.Sender().GetId()}
}
