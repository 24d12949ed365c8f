package replica

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/core/offload"
	"troupe/messages"
)

// hbmTier is the name of HBM in metrics and messages, next to the names of tiers.
const hbmTier = "hbm"

// restoreCommand is a RestoreBlocks command, or the prefetch of a pinned prefix.
type restoreCommand struct {
	id    string
	from  offload.Actor // zero: a prefetch
	began time.Time
	inHBM int // leading blocks that were in HBM already
}

// tiersThatFit returns the tiers whose slots are large enough for the replica's blocks.
func (r *replica) tiersThatFit(all []Tier) (fit []Tier) {
	for _, t := range all {
		if t.Store.Slabs().Fit(int(r.model.GetKvBlockBytes())) > 0 {
			fit = append(fit, t)
			continue
		}
		r.Log.Warn().Str("tier", t.Name).Uint64("block_bytes", r.model.GetKvBlockBytes()).
			Int("largest", t.Store.SlotBytes()).
			Msg("KV blocks do not fit into the tier; give it more room with --kv-dram or --kv-nvme")
	}
	return fit
}

func (r *replica) receiveKVCommands(ctx actor.Context) bool {
	switch msg := ctx.Message().(type) {
	case *messages.OffloadBlocks:
		r.onOffloadBlocks(ctx, msg)
	case *messages.RestoreBlocks:
		r.onRestoreBlocks(ctx, msg)
	case *messages.FlushBlocks:
		r.onFlushBlocks(ctx, msg)
	case *messages.CopyBlocksDownResult:
		r.onCopiedDown(ctx, msg)
	case *offloadRetry:
		r.onOffloadRetry(ctx, msg)
	case *messages.LeaseBlocks:
		r.onLeaseBlocks(ctx, msg)
	case *messages.ReleaseBlocks:
		r.onReleaseBlocks(ctx, msg)
	case *exportDone:
		r.onExportDone(ctx, msg)
	default:
		return false
	}
	return true
}

// prefetch restores a prefix for which no sequence waits.
func (r *replica) prefetch(ctx actor.Context, e offload.Prefetch) {
	hashes := e.Hashes
	if msg, ok := ctx.Message().(*messages.RestoreBlocks); ok {
		hashes = r.prefixHashes(msg.GetAdapter(), msg.GetCacheSalt(), msg.GetTokens())
	}
	command := &restoreCommand{id: e.ID, from: e.To, began: supervise.Now(ctx), inHBM: r.pool.Match(hashes)}
	if command.inHBM == len(hashes) {
		command.answer(ctx, r, 0, "")
		return
	}
	r.startPrefetch(ctx, command, hashes)
}

// prefixHashes returns the blocks of the whole blocks of a prefix.
func (r *replica) prefixHashes(adapter string, salt []byte, tokens []uint32) []kv.Hash {
	return kv.Hashes(kv.Root(r.Spec.GetModel(), adapter, salt), tokens, r.pool.BlockTokens())
}

// answer sends the result to the operator, if there is one.
func (c *restoreCommand) answer(ctx actor.Context, r *replica, blocks int, detail string) {
	moved := r.kvMoved(blocks, supervise.Now(ctx).Sub(c.began), detail)
	moved.Present = uint32(c.inHBM)
	r.answerCommand(ctx, c.from, c.id, moved)
}
