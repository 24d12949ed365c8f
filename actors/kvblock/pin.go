package kvblock

import (
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
		if hashes[h] = true; !p.hashes[h] {
			s.tier.Pin(h)
		}
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

func (s *slots) onFlush(ctx actor.Context, msg *messages.FlushBlocks) {
	ctx.Respond(&messages.BlocksMoved{RequestId: msg.GetRequestId(), Outcome: &messages.BlocksMoved_Moved{
		Moved: &messages.KvMoved{Tier: s.Name, Blocks: uint32(s.tier.Flush())},
	}})
}
