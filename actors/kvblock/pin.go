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

// pinFor is how long blocks stay pinned that nobody says again are.
const pinFor = 10 * time.Second

// pinned is what a replica wants to stay.
type pinned struct {
	hashes map[kv.Hash]bool
	said   uint64 // how often
}

// unsaid is a note to self: it is time to see whether a replica has said it again.
type unsaid struct {
	incarnation uint64
	replica     string
	said        uint64
}

func (s *slots) onPin(ctx actor.Context, msg *messages.PinBlocks) {
	p := s.pins[msg.GetReplica()]
	if p == nil {
		p = &pinned{}
		s.pins[msg.GetReplica()] = p
	}
	hashes := make(map[kv.Hash]bool, len(msg.GetHashes()))
	for _, raw := range msg.GetHashes() {
		h := kv.Hash(raw)
		if !hashes[h] && !p.hashes[h] { // prefixes may begin alike
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
	p.said++
	supervise.After(ctx, pinFor, &unsaid{s.incarnation, msg.GetReplica(), p.said})
}

func (s *slots) onUnsaid(msg *unsaid) {
	p := s.pins[msg.replica]
	if msg.incarnation != s.incarnation || p == nil || p.said != msg.said {
		return
	}
	for h := range p.hashes {
		s.tier.Unpin(h)
	}
	delete(s.pins, msg.replica)
}

// flush is a FlushBlocks that is being carried out: what was in these slots is erased.
type flush struct {
	asker *actor.PID
	slots []int32
}

// flushed is a note to self.
type flushed struct {
	incarnation uint64
	id          string
	err         error
}

// onFlush drops blocks, and has them erased, so that a later life does not find them. Their slots are given out again after that.
func (s *slots) onFlush(ctx actor.Context, msg *messages.FlushBlocks) {
	id := msg.GetRequestId()
	if f := s.flushes[id]; f != nil {
		f.asker = ctx.Sender()
		return
	}
	f := &flush{asker: ctx.Sender(), slots: s.tier.Flush()}
	s.flushes[id] = f
	incarnation, store, all := s.incarnation, s.Store, slices.Clone(f.slots)
	erase := func(ctx context.Context) (struct{}, error) { return struct{}{}, store.Erase(ctx, all) }
	supervise.Job(ctx, s.life, erase, func(_ struct{}, err error) any { return &flushed{incarnation, id, err} })
}

func (s *slots) onFlushed(ctx actor.Context, msg *flushed) {
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
		moved.Detail = "after a restart some may be there again: " + msg.err.Error()
		s.Log.Warn().Err(msg.err).Str("tier", s.Name).Msg("blocks not erased")
	}
	if f.asker != nil {
		ctx.Send(f.asker, &messages.BlocksMoved{RequestId: msg.id, Outcome: &messages.BlocksMoved_Moved{Moved: moved}})
	}
}
