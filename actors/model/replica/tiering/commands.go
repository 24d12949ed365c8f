package tiering

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
	from  offload.Actor // zero: the prefetch of a pinned prefix
	began time.Time
	inHBM int // number of leading blocks that were already in HBM
}

// tiersThatFit returns the tiers whose slots are large enough for the replica's blocks.
func (t *Tiering) tiersThatFit(all []Tier) (fit []Tier) {
	for _, tier := range all {
		if tier.Store.Slabs().Fit(int(t.Machine.Model().BlockBytes)) > 0 {
			fit = append(fit, tier)
			continue
		}
		t.Log.Warn().Str("tier", tier.Name).Uint64("block_bytes", t.Machine.Model().BlockBytes).
			Int("largest", tier.Store.SlotBytes()).
			Msg("KV blocks do not fit into the tier; give it more room with --kv-dram or --kv-nvme")
	}
	return fit
}

// prefetch restores a prefix that no sequence is waiting for.
func (t *Tiering) prefetch(ctx actor.Context, e offload.Prefetch) {
	hashes := e.Hashes
	if msg, ok := ctx.Message().(*messages.RestoreBlocks); ok {
		hashes = t.prefixHashes(msg.GetAdapter(), msg.GetCacheSalt(), msg.GetTokens())
	}
	command := &restoreCommand{id: e.ID, from: e.To, began: supervise.Now(ctx), inHBM: t.Machine.Pool().Match(hashes)}
	if command.inHBM == len(hashes) {
		command.answer(ctx, t, 0, "")
		return
	}
	t.startPrefetch(ctx, command, hashes)
}

// prefixHashes returns the hashes of the full blocks of a prefix.
func (t *Tiering) prefixHashes(adapter string, salt []byte, tokens []uint32) []kv.Hash {
	return kv.Hashes(kv.Root(t.Spec.GetModel(), adapter, salt), tokens, t.Machine.Pool().BlockTokens())
}

// answer sends the result to the operator, if there is one.
func (c *restoreCommand) answer(ctx actor.Context, t *Tiering, blocks int, detail string) {
	moved := t.kvMoved(blocks, supervise.Now(ctx).Sub(c.began), detail)
	moved.Present = uint32(c.inHBM)
	t.answerCommand(ctx, c.from, c.id, moved)
}
