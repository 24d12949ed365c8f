package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

const (
	maxExports    = 8                // concurrent exports; further ones are refused
	maxExportTime = 10 * time.Second // limit of a lease, even if a longer one is requested
)

// export is a LeaseBlocks in progress. Its blocks are referenced, so they are neither evicted nor
// overwritten.
type export struct {
	requester *actor.PID
	blocks    []int32
	end       context.CancelFunc
}

// exportDone is a message to self: an export has ended.
type exportDone struct {
	incarnation uint64
	id          string
	err         error
}

// onLeaseBlocks sends the leading blocks of a prompt that are in HBM to another replica.
func (r *replica) onLeaseBlocks(ctx actor.Context, msg *messages.LeaseBlocks) {
	id := msg.GetRequestId()
	chunks, err := kvstore.NewChunks(len(msg.GetHashes()), msg.GetBlockBytes(), msg.GetPartBytes())
	if refused := r.checkExport(msg, err); refused != nil {
		ctx.Respond(&messages.LeaseBlocksResult{RequestId: id,
			Outcome: &messages.LeaseBlocksResult_Refused{Refused: refused}})
		return
	}
	if l := r.kvTiers.exports[id]; l != nil {
		l.requester = ctx.Sender()
		return
	}
	hashes := wire.Hashes(msg.GetHashes())
	l := &export{requester: ctx.Sender(), blocks: r.pool.Acquire(hashes[:r.pool.Match(hashes)])}
	r.kvTiers.exports[id] = l
	d := blockSender{from: r.kvTiers.down, bulk: r.Bulk, ticket: msg.GetTicket(), chunks: chunks, blocks: l.blocks,
		hashes: hashes, namespace: r.kvTiers.namespace}
	var life context.Context
	life, l.end = context.WithTimeout(r.life, min(msg.GetLease().AsDuration(), maxExportTime))
	incarnation := r.incarnation
	supervise.Job(ctx, life, d.run, func(_ struct{}, err error) any { return &exportDone{incarnation, id, err} })
}

func (r *replica) checkExport(msg *messages.LeaseBlocks, bad error) *messages.Refused {
	l, name := r.kvTiers, "replica "+r.Spec.GetName()
	switch {
	case l == nil || !l.ready:
		return refusal(messages.Reason_REASON_NOT_READY, name+" cannot send blocks: not ready, or without KV tiers",
			retryAfter)
	case r.Bulk == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED, name+" has no data plane to send blocks over", 0)
	case hashOrZero(msg.GetSpace()) != l.namespace || msg.GetBlockBytes() != uint64(l.down.BlockBytes()):
		return refusal(messages.Reason_REASON_CONFLICT,
			name+" has other weights, or other KV blocks: "+l.down.Layout(), 0)
	case bad != nil:
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT, name+": "+bad.Error(), 0)
	case len(l.exports) >= maxExports && l.exports[msg.GetRequestId()] == nil:
		return refusal(messages.Reason_REASON_QUEUE_FULL,
			name+" has the maximum number of block transfers in progress", retryQueueFull)
	}
	return nil
}

// hashOrZero returns raw as a hash, or the zero hash if the length is wrong. No block has the zero
// hash.
func hashOrZero(raw []byte) (h kv.Hash) {
	if len(raw) == len(h) {
		copy(h[:], raw)
	}
	return h
}

func (r *replica) onReleaseBlocks(msg *messages.ReleaseBlocks) {
	if r.kvTiers != nil && r.kvTiers.exports[msg.GetRequestId()] != nil {
		r.kvTiers.exports[msg.GetRequestId()].end()
	}
}

// onExportDone releases the blocks of an export and answers its requester.
func (r *replica) onExportDone(ctx actor.Context, msg *exportDone) {
	if r.kvTiers == nil || msg.incarnation != r.incarnation {
		return
	}
	l := r.kvTiers.exports[msg.id]
	delete(r.kvTiers.exports, msg.id)
	l.end()
	r.pool.Release(l.blocks)
	result := &messages.LeaseBlocksResult{RequestId: msg.id,
		Outcome: &messages.LeaseBlocksResult_Sent{Sent: &messages.BlocksSent{Blocks: uint32(len(l.blocks))}}}
	if msg.err != nil {
		result.Outcome = &messages.LeaseBlocksResult_Refused{
			Refused: refusal(messages.Reason_REASON_INTERNAL, "replica "+r.Spec.GetName()+": "+msg.err.Error(), 0),
		}
	} else {
		r.kvTiers.totals.exported += uint64(len(l.blocks))
	}
	if l.requester != nil {
		ctx.Send(l.requester, result)
	}
	r.Advance(ctx)
}

// blockSender sends blocks from HBM.
type blockSender struct {
	from      Blocks
	bulk      Bulk
	ticket    *messages.BulkTicket
	chunks    kvstore.Chunks
	blocks    []int32
	hashes    []kv.Hash
	namespace kv.Hash
}

// run sends the chunks of the blocks, each with its seal.
func (d blockSender) run(ctx context.Context) (none struct{}, err error) {
	return none, d.bulk.Send(ctx, d.ticket, d.chunks.SendOrder(len(d.blocks)), func(index uint32, into []byte) (int,
		error) {
		i, part := d.chunks.BlockPart(index)
		lo, hi := d.chunks.PieceRange(part)
		size := hi - lo + kvstore.SealBytes
		if len(into) < size {
			return 0, fmt.Errorf("chunks of the transfer are smaller than %d bytes", size)
		}
		if err := d.from.ReadPart(ctx, d.blocks[i], lo, into[:hi-lo]); err != nil {
			return 0, err
		}
		kvstore.Seal(d.hashes[i].Namespaced(d.namespace), d.chunks.BlockBytes, lo, into[:size])
		return size, nil
	})
}
