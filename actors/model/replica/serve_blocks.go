package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/kvstore"
	"troupe/messages"
)

const (
	maxLoans     = 8                // at once; further ones are refused
	longestLease = 10 * time.Second // whatever was asked for
)

// loan is a LeaseBlocks that is being carried out. Its blocks are referenced, and so neither evicted nor written to.
type loan struct {
	asker  *actor.PID
	blocks []int32
	end    context.CancelFunc
}

// returned is a note to self: a loan has ended.
type returned struct {
	incarnation uint64
	id          string
	err         error
}

// onLease has the leading blocks of a prompt sent to another replica, as far as they are in HBM.
func (r *replica) onLease(ctx actor.Context, msg *messages.LeaseBlocks) {
	id := msg.GetRequestId()
	chunks, err := kvstore.NewChunks(len(msg.GetHashes()), msg.GetBlockBytes(), msg.GetPartBytes())
	if refused := r.refuseLease(msg, err); refused != nil {
		ctx.Respond(&messages.LeaseBlocksResult{RequestId: id, Outcome: &messages.LeaseBlocksResult_Refused{Refused: refused}})
		return
	}
	if l := r.lower.loans[id]; l != nil {
		l.asker = ctx.Sender()
		return
	}
	hashes := hashesOf(msg.GetHashes())
	l := &loan{asker: ctx.Sender(), blocks: r.pool.Acquire(hashes[:r.pool.Match(hashes)])}
	r.lower.loans[id] = l
	d := delivery{from: r.lower.down, bulk: r.Bulk, ticket: msg.GetTicket(), chunks: chunks, blocks: l.blocks, hashes: hashes, space: r.lower.space}
	var life context.Context
	life, l.end = context.WithTimeout(r.life, min(msg.GetLease().AsDuration(), longestLease))
	incarnation := r.incarnation
	supervise.Job(ctx, life, d.run, func(_ struct{}, err error) any { return &returned{incarnation, id, err} })
}

func (r *replica) refuseLease(msg *messages.LeaseBlocks, bad error) *messages.Refused {
	l, name := r.lower, "replica "+r.Spec.GetName()
	switch {
	case l == nil || !l.ready:
		return refusal(messages.Reason_REASON_NOT_READY, name+" is not ready to lend blocks, or lends none", retryAfter)
	case r.Bulk == nil:
		return refusal(messages.Reason_REASON_UNSUPPORTED, name+" has no data plane to send blocks over", 0)
	case padded(msg.GetSpace()) != l.space || msg.GetBlockBytes() != uint64(l.down.BlockBytes()):
		return refusal(messages.Reason_REASON_CONFLICT, name+" has other weights, or other KV blocks: "+l.down.Layout(), 0)
	case bad != nil:
		return refusal(messages.Reason_REASON_INVALID_ARGUMENT, name+": "+bad.Error(), 0)
	case len(l.loans) >= maxLoans && l.loans[msg.GetRequestId()] == nil:
		return refusal(messages.Reason_REASON_QUEUE_FULL, name+" sends to as many as it can at once", retryFull)
	}
	return nil
}

// padded makes a hash of any bytes; what is no hash becomes one that nothing has.
func padded(raw []byte) (h kv.Hash) {
	if len(raw) == len(h) {
		copy(h[:], raw)
	}
	return h
}

func (r *replica) onReleaseLease(msg *messages.ReleaseBlocks) {
	if r.lower != nil && r.lower.loans[msg.GetRequestId()] != nil {
		r.lower.loans[msg.GetRequestId()].end()
	}
}

// onReturned lets go of what was lent, and says how it ended.
func (r *replica) onReturned(ctx actor.Context, msg *returned) {
	if r.lower == nil || msg.incarnation != r.incarnation {
		return
	}
	l := r.lower.loans[msg.id]
	delete(r.lower.loans, msg.id)
	l.end()
	r.pool.Release(l.blocks)
	result := &messages.LeaseBlocksResult{RequestId: msg.id, Outcome: &messages.LeaseBlocksResult_Sent{Sent: &messages.BlocksSent{Blocks: uint32(len(l.blocks))}}}
	if msg.err != nil {
		result.Outcome = &messages.LeaseBlocksResult_Refused{
			Refused: refusal(messages.Reason_REASON_INTERNAL, "replica "+r.Spec.GetName()+": "+msg.err.Error(), 0),
		}
	} else {
		r.lower.totals.lent += uint64(len(l.blocks))
	}
	if l.asker != nil {
		ctx.Send(l.asker, result)
	}
	r.advance(ctx)
}

// delivery sends blocks of HBM.
type delivery struct {
	from   Blocks
	bulk   Bulk
	ticket *messages.BulkTicket
	chunks kvstore.Chunks
	blocks []int32
	hashes []kv.Hash
	space  kv.Hash
}

// run sends each chunk of the blocks with its seal.
func (d delivery) run(ctx context.Context) (none struct{}, err error) {
	return none, d.bulk.Send(ctx, d.ticket, d.chunks.SendOrder(len(d.blocks)), func(index uint32, into []byte) (int, error) {
		i, part := d.chunks.BlockPart(index)
		lo, hi := d.chunks.PieceRange(part)
		size := hi - lo + kvstore.SealBytes
		if len(into) < size {
			return 0, fmt.Errorf("the transfer is not for chunks of %d bytes", size)
		}
		if err := d.from.ReadPart(ctx, d.blocks[i], lo, into[:hi-lo]); err != nil {
			return 0, err
		}
		kvstore.Seal(d.hashes[i].Namespaced(d.space), d.chunks.BlockBytes, lo, into[:size])
		return size, nil
	})
}
