package replica

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/messages"
)

// search asks the tiers for blocks, and locks those that are there; then the remote tier for those that follow.
type tierLookup struct {
	request   string
	root      *actor.RootContext
	tiers     []Tier
	hashes    []kv.Hash
	namespace kv.Hash
	timeout   time.Duration // each of them, and then the remote tier, may take to answer

	remote         *actor.PID // nil: no other holder is looked for
	model, replica string
}

// place is where a block lies: below, or with another holder.
type blockLocation struct {
	tier int // index of the fastest tier that has it; from len(tiers) on, of a holder
	slot int32
	hash kv.Hash // as the tiers know it
}

// lookupResult are where the leading blocks lie. Those below are locked until somebody claims them, who then unlocks them, or else until the life ends: what
// comes of them may never be heard.
type lookupResult struct {
	locations []blockLocation
	holders   []remoteHolder
	claim     func() bool
}

// run looks for the leading blocks. Who does not answer has none.
func (s tierLookup) run(life context.Context) (lookupResult, error) {
	wanted := make([][]byte, len(s.hashes))
	for i, h := range s.hashes {
		inSpace := h.Namespaced(s.namespace)
		wanted[i] = inSpace[:]
	}
	asked := make([]actor.Future, len(s.tiers))
	for i, t := range s.tiers {
		asked[i] = s.root.RequestFuture(t.Actor, &messages.LockBlocks{RequestId: s.request, Hashes: wanted}, s.timeout)
	}
	below := make(map[kv.Hash]blockLocation)
	for i := len(asked) - 1; i >= 0; i-- { // the fastest last, so that it counts
		if answer, err := asked[i].Result(); err == nil {
			for _, b := range answer.(*messages.LockBlocksResult).GetLocked() {
				below[kv.Hash(b.GetHash())] = blockLocation{i, int32(b.GetIndex()), kv.Hash(b.GetHash())}
			}
		}
	}
	var places []blockLocation
	for _, h := range wanted {
		p, ok := below[kv.Hash(h)]
		if !ok {
			break
		}
		places = append(places, p)
	}
	all := lookupResult{locations: places}
	s.findRemote(&all)
	all.claim = context.AfterFunc(life, func() { s.unlock(nil) })
	return all, nil
}

// unlock ends what run began, and tells of blocks that were damaged.
func (s tierLookup) unlock(damaged []blockLocation) {
	for i, t := range s.tiers {
		msg := &messages.UnlockBlocks{RequestId: s.request}
		for _, p := range damaged {
			if p.tier == i {
				msg.Damaged = append(msg.Damaged, p.hash[:])
			}
		}
		s.root.Send(t.Actor, msg)
	}
}
