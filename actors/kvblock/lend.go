package kvblock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/engine/tier"
	"troupe/messages"
)

// Bulk is the node's data plane. Send returns when the other side has put all of the chunks, or the context ends.
type Bulk interface {
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32, read func(index uint32, into []byte) (int, error)) error
	// SendInPlace likewise, of chunks that lie in memory: view has use called with the parts of one, which stay what they are until that returns.
	SendInPlace(ctx context.Context, to *messages.BulkTicket, indices []uint32, view func(index uint32, use func(parts ...[]byte) error) error) error
}

// inMemory is a store whose blocks need not be copied to be sent, if it says so.
type inMemory interface{ InMemory() bool }

const (
	maxLoans   = 8                // at once; further ones are refused
	longest    = 10 * time.Second // a lease
	askAgainIn = 100 * time.Millisecond
)

// loan is a LeaseBlocks that is being carried out.
type loan struct {
	asker *actor.PID
	slots []int32
	end   context.CancelFunc
}

// returned is a note to self: a loan has ended.
type returned struct {
	incarnation uint64
	id          string
	damaged     []kv.Hash
	err         error
}

func (s *slots) receiveLending(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *messages.LeaseBlocks:
		s.onLease(ctx, msg)
	case *messages.ReleaseBlocks:
		if l := s.loans[msg.GetRequestId()]; l != nil {
			l.end()
		}
	case *returned:
		s.onReturned(ctx, msg)
	case *beat:
		s.onBeat(ctx, msg)
	}
}

func (s *slots) onLease(ctx actor.Context, msg *messages.LeaseBlocks) {
	id := msg.GetRequestId()
	if l := s.loans[id]; l != nil {
		l.asker = ctx.Sender()
		return
	}
	chunks, err := tier.NewChunks(len(msg.GetHashes()), msg.GetBlockBytes(), msg.GetPartBytes())
	if refused := s.refuseLease(msg, err); refused != nil {
		ctx.Respond(&messages.LeaseBlocksResult{RequestId: id, Outcome: &messages.LeaseBlocksResult_Refused{Refused: refused}})
		return
	}
	l := &loan{asker: ctx.Sender()}
	d := delivery{store: s.Store, bulk: s.Bulk, ticket: msg.GetTicket(), chunks: chunks}
	for _, raw := range msg.GetHashes() {
		h := kv.Hash(raw).Within(kv.Hash(msg.GetSpace()))
		s.tier.Want([]kv.Hash{h})
		slot, ok := s.tier.Read(h)
		if !ok {
			break
		}
		l.slots, d.blocks = append(l.slots, slot), append(d.blocks, tier.Reading{Slot: slot, Hash: h, Bytes: d.chunks.BlockBytes})
	}
	var life context.Context
	life, l.end = context.WithTimeout(s.life, min(msg.GetLease().AsDuration(), longest))
	s.loans[id] = l
	note := &returned{incarnation: s.incarnation, id: id}
	supervise.Job(ctx, life, d.run, func(damaged []kv.Hash, err error) any {
		note.damaged, note.err = damaged, err
		return note
	})
}

func (s *slots) refuseLease(msg *messages.LeaseBlocks, bad error) *messages.Refused {
	for _, raw := range append([][]byte{msg.GetSpace()}, msg.GetHashes()...) {
		if len(raw) != len(kv.Hash{}) {
			return &messages.Refused{Reason: messages.Reason_REASON_INVALID_ARGUMENT, Detail: fmt.Sprintf("a hash has %d bytes, not %d", len(kv.Hash{}), len(raw))}
		}
	}
	switch {
	case s.Bulk == nil:
		return &messages.Refused{Reason: messages.Reason_REASON_UNSUPPORTED, Detail: "tier " + s.Name + " has no data plane to send blocks over"}
	case msg.GetBlockBytes() == 0 || msg.GetBlockBytes() > uint64(s.Store.SlotBytes()):
		return &messages.Refused{Reason: messages.Reason_REASON_INVALID_ARGUMENT,
			Detail: fmt.Sprintf("tier %s has slots of %d bytes, and no blocks of %d", s.Name, s.Store.SlotBytes(), msg.GetBlockBytes())}
	case bad != nil:
		return &messages.Refused{Reason: messages.Reason_REASON_INVALID_ARGUMENT, Detail: "tier " + s.Name + ": " + bad.Error()}
	case len(s.loans) >= maxLoans:
		return &messages.Refused{Reason: messages.Reason_REASON_QUEUE_FULL, RetryAfter: durationpb.New(askAgainIn),
			Detail: "tier " + s.Name + " sends to as many as it can at once; ask again later, or compute the blocks"}
	}
	return nil
}

// onReturned unlocks what was lent, and says how it ended.
func (s *slots) onReturned(ctx actor.Context, msg *returned) {
	l := s.loans[msg.id]
	if msg.incarnation != s.incarnation || l == nil {
		return
	}
	delete(s.loans, msg.id)
	l.end()
	for _, h := range msg.damaged {
		s.drop(h)
	}
	for _, slot := range l.slots {
		s.tier.Done(slot)
	}
	result := &messages.LeaseBlocksResult{RequestId: msg.id, Outcome: &messages.LeaseBlocksResult_Sent{Sent: &messages.BlocksSent{Blocks: uint32(len(l.slots))}}}
	if msg.err != nil {
		result.Outcome = &messages.LeaseBlocksResult_Refused{Refused: &messages.Refused{
			Reason: messages.Reason_REASON_INTERNAL, Detail: "tier " + s.Name + ": " + msg.err.Error(),
		}}
	} else {
		s.lent += uint64(len(l.slots))
	}
	if l.asker != nil {
		ctx.Send(l.asker, result)
	}
	s.depart(ctx)
}

// delivery sends blocks out of a store.
type delivery struct {
	store  tier.Store
	bulk   Bulk
	ticket *messages.BulkTicket
	chunks tier.Chunks
	blocks []tier.Reading // the leading ones, as the tier has them
}

// run sends the blocks, each chunk with its seal, and returns one that was damaged here.
func (d delivery) run(ctx context.Context) (damaged []kv.Hash, err error) {
	view := func(index uint32, use func(parts ...[]byte) error) error {
		i, part := d.chunks.BlockPart(index)
		lo, hi := d.chunks.PieceRange(part)
		err := tier.ViewSealed(ctx, d.store, &d.blocks[i], lo, hi, func(pieces, seal []byte) error { return use(pieces, seal) })
		if errors.Is(err, tier.ErrDamaged) {
			damaged = []kv.Hash{d.blocks[i].Hash}
		}
		return err
	}
	indices := d.chunks.SendOrder(len(d.blocks))
	if m, ok := d.store.(inMemory); ok && m.InMemory() {
		err = d.bulk.SendInPlace(ctx, d.ticket, indices, view)
		return damaged, err
	}
	err = d.bulk.Send(ctx, d.ticket, indices, func(index uint32, into []byte) (n int, err error) {
		err = view(index, func(parts ...[]byte) error {
			size := 0
			for _, p := range parts {
				size += len(p)
				n += copy(into[n:], p)
			}
			if n < size {
				return fmt.Errorf("the transfer is not for chunks of %d bytes", size)
			}
			return nil
		})
		return n, err
	})
	return damaged, err
}
