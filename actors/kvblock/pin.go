package kvblock

import (
	"context"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

// pinTTL is how long pins last unless their replica repeats them.
const pinTTL = 10 * time.Second

// replicaPins are the pins of one replica.
type replicaPins struct {
	hashes  map[kv.Hash]bool
	version uint64 // number of PinBlocks received
}

// pinExpiry is a message to self: drop a replica's pins unless it has repeated them.
type pinExpiry struct {
	incarnation uint64
	replica     string
	version     uint64
}

func (s *tierActor) onPin(ctx actor.Context, msg *messages.PinBlocks) {
	p := s.pins[msg.GetReplica()]
	if p == nil {
		p = &replicaPins{}
		s.pins[msg.GetReplica()] = p
	}
	hashes := make(map[kv.Hash]bool, len(msg.GetHashes()))
	for _, raw := range msg.GetHashes() {
		h := kv.Hash(raw)
		if !hashes[h] && !p.hashes[h] { // prefixes may share blocks
			s.tier.Pin(h)
		}
		hashes[h] = true
	}
	for h := range p.hashes {
		if !hashes[h] {
			s.tier.Unpin(h)
		}
	}
	p.hashes = hashes
	p.version++
	supervise.After(ctx, pinTTL, &pinExpiry{s.incarnation, msg.GetReplica(), p.version})
}

func (s *tierActor) onPinExpiry(msg *pinExpiry) {
	p := s.pins[msg.replica]
	if msg.incarnation != s.incarnation || p == nil || p.version != msg.version {
		return
	}
	for h := range p.hashes {
		s.tier.Unpin(h)
	}
	delete(s.pins, msg.replica)
}

// flush is a FlushBlocks in progress: the content of its slots is being erased.
type flush struct {
	asker *actor.PID
	slots []int32
}

// flushed is a message to self.
type flushed struct {
	incarnation uint64
	id          string
	err         error
}

// onFlush drops blocks and erases them, so that a later incarnation does not find them. Their slots
// are not reused before that.
func (s *tierActor) onFlush(ctx actor.Context, msg *messages.FlushBlocks) {
	id := msg.GetRequestId()
	if f := s.flushes[id]; f != nil {
		f.asker = ctx.Sender()
		return
	}
	f := &flush{asker: ctx.Sender(), slots: s.tier.Flush()}
	s.flushes[id] = f
	incarnation, store, all := s.incarnation, s.Store, slices.Clone(f.slots)
	erase := func(ctx context.Context) (struct{}, error) { return struct{}{}, store.Erase(ctx, all) }
	supervise.Job(ctx, s.lifetime, erase, func(_ struct{}, err error) any { return &flushed{incarnation, id, err} })
}

func (s *tierActor) onFlushed(ctx actor.Context, msg *flushed) {
	f := s.flushes[msg.id]
	if msg.incarnation != s.incarnation || f == nil {
		return
	}
	delete(s.flushes, msg.id)
	for _, slot := range f.slots {
		s.tier.Done(slot)
	}
	moved := &messages.KvMoved{Tier: s.Name, Blocks: uint32(len(f.slots))}
	if msg.err != nil {
		moved.Detail = "some blocks may reappear after a restart: " + msg.err.Error()
		s.Log.Warn().Err(msg.err).Str("tier", s.Name).Msg("flush: erasing blocks failed")
	}
	if f.asker != nil {
		ctx.Send(f.asker, &messages.BlocksMoved{RequestId: msg.id, Outcome: &messages.BlocksMoved_Moved{Moved: moved}})
	}
}
