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
	"troupe/engine/kvstore"
	"troupe/messages"
)

// DataPlane is the node's data plane. Send returns when the receiver has stored all chunks or the
// context ends.
type DataPlane interface {
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		read func(index uint32, into []byte) (int, error)) error
	// SendInPlace is Send for chunks that are in memory. view calls use with the parts of a chunk,
	// which must not change until use returns.
	SendInPlace(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		view func(index uint32, use func(parts ...[]byte) error) error) error
}

// inMemoryStore is a store that reports whether its blocks can be sent without a copy.
type inMemoryStore interface{ InMemory() bool }

const (
	maxExports = 8                // at once; further ones are refused
	maxLease   = 10 * time.Second // limit of a lease
	retryDelay = 100 * time.Millisecond
)

// export is a LeaseBlocks in progress.
type export struct {
	asker  *actor.PID
	slots  []int32
	cancel context.CancelFunc
}

// exportDone is a message to self: an export has ended.
type exportDone struct {
	incarnation uint64
	id          string
	damaged     []kv.Hash
	err         error
}

func (s *tierActor) receiveExport(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *messages.LeaseBlocks:
		s.onLease(ctx, msg)
	case *messages.ReleaseBlocks:
		if l := s.exports[msg.GetRequestId()]; l != nil {
			l.cancel()
		}
	case *exportDone:
		s.onExportDone(ctx, msg)
	case *announceTick:
		s.onAnnounceTick(ctx, msg)
	default:
		supervise.Unknown(ctx, "tier")
	}
}

func (s *tierActor) onLease(ctx actor.Context, msg *messages.LeaseBlocks) {
	id := msg.GetRequestId()
	if l := s.exports[id]; l != nil {
		l.asker = ctx.Sender()
		return
	}
	chunks, err := kvstore.NewChunks(len(msg.GetHashes()), msg.GetBlockBytes(), msg.GetPartBytes())
	if refused := s.refuseLease(msg, err); refused != nil {
		ctx.Respond(&messages.LeaseBlocksResult{RequestId: id,
			Outcome: &messages.LeaseBlocksResult_Refused{Refused: refused}})
		return
	}
	l := &export{asker: ctx.Sender()}
	d := sender{store: s.Store, bulk: s.DataPlane, ticket: msg.GetTicket(), chunks: chunks}
	for _, raw := range msg.GetHashes() {
		h := kv.Hash(raw).Namespaced(kv.Hash(msg.GetSpace()))
		s.tier.Lookup([]kv.Hash{h})
		slot, ok := s.tier.Read(h)
		if !ok {
			break
		}
		l.slots, d.blocks = append(l.slots, slot),
			append(d.blocks, kvstore.Reading{Slot: slot, Hash: h, Bytes: d.chunks.BlockBytes})
	}
	var life context.Context
	life, l.cancel = context.WithTimeout(s.lifetime, min(msg.GetLease().AsDuration(), maxLease))
	s.exports[id] = l
	note := &exportDone{incarnation: s.incarnation, id: id}
	supervise.Job(ctx, life, d.run, func(damaged []kv.Hash, err error) any {
		note.damaged, note.err = damaged, err
		return note
	})
}

func (s *tierActor) refuseLease(msg *messages.LeaseBlocks, bad error) *messages.Refused {
	for _, raw := range append([][]byte{msg.GetSpace()}, msg.GetHashes()...) {
		if len(raw) != len(kv.Hash{}) {
			return &messages.Refused{Reason: messages.Reason_REASON_INVALID_ARGUMENT,
				Detail: fmt.Sprintf("invalid hash length %d; want %d bytes", len(raw), len(kv.Hash{}))}
		}
	}
	switch {
	case s.DataPlane == nil:
		return &messages.Refused{Reason: messages.Reason_REASON_UNSUPPORTED,
			Detail: "tier " + s.Name + " has no data plane to send blocks"}
	case msg.GetBlockBytes() == 0 || msg.GetBlockBytes() > uint64(s.Store.SlotBytes()):
		return &messages.Refused{Reason: messages.Reason_REASON_INVALID_ARGUMENT,
			Detail: fmt.Sprintf("tier %s has slots of %d bytes; blocks of %d bytes do not fit", s.Name,
				s.Store.SlotBytes(), msg.GetBlockBytes())}
	case bad != nil:
		return &messages.Refused{Reason: messages.Reason_REASON_INVALID_ARGUMENT,
			Detail: "tier " + s.Name + ": " + bad.Error()}
	case len(s.exports) >= maxExports:
		return &messages.Refused{Reason: messages.Reason_REASON_QUEUE_FULL, RetryAfter: durationpb.New(retryDelay),
			Detail: "tier " + s.Name +
				" has reached its limit of concurrent exports; retry later, or compute the blocks"}
	}
	return nil
}

// onExportDone unlocks the exported blocks and sends the result.
func (s *tierActor) onExportDone(ctx actor.Context, msg *exportDone) {
	l := s.exports[msg.id]
	if msg.incarnation != s.incarnation || l == nil {
		return
	}
	delete(s.exports, msg.id)
	l.cancel()
	for _, h := range msg.damaged {
		s.drop(h)
	}
	for _, slot := range l.slots {
		s.tier.Done(slot)
	}
	result := &messages.LeaseBlocksResult{RequestId: msg.id, Outcome: &messages.LeaseBlocksResult_Sent{
		Sent: &messages.BlocksSent{Blocks: uint32(len(l.slots))},
	}}
	if msg.err != nil {
		result.Outcome = &messages.LeaseBlocksResult_Refused{Refused: &messages.Refused{
			Reason: messages.Reason_REASON_INTERNAL, Detail: "tier " + s.Name + ": " + msg.err.Error(),
		}}
	} else {
		s.exported += uint64(len(l.slots))
	}
	if l.asker != nil {
		ctx.Send(l.asker, result)
	}
	s.demote(ctx)
}

// sender sends blocks from a store.
type sender struct {
	store  kvstore.Store
	bulk   DataPlane
	ticket *messages.BulkTicket
	chunks kvstore.Chunks
	blocks []kvstore.Reading // the leading blocks that the tier has
}

// run sends the blocks, each chunk with its seal. It returns a block that turned out to be damaged.
func (d sender) run(ctx context.Context) (damaged []kv.Hash, err error) {
	view := func(index uint32, use func(parts ...[]byte) error) error {
		i, part := d.chunks.BlockPart(index)
		lo, hi := d.chunks.PieceRange(part)
		err := kvstore.ViewSealed(ctx, d.store, &d.blocks[i], lo, hi,
			func(pieces, seal []byte) error { return use(pieces, seal) })
		if errors.Is(err, kvstore.ErrDamaged) {
			damaged = []kv.Hash{d.blocks[i].Hash}
		}
		return err
	}
	indices := d.chunks.SendOrder(len(d.blocks))
	if m, ok := d.store.(inMemoryStore); ok && m.InMemory() {
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
				return fmt.Errorf("chunk of %d bytes does not fit the transfer", size)
			}
			return nil
		})
		return n, err
	})
	return damaged, err
}
