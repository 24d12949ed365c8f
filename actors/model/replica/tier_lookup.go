package replica

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/messages"
)

// tierLookup locks blocks in the tiers, and finds remote holders of the blocks after them.
type tierLookup struct {
	request   string
	root      *actor.RootContext
	tiers     []Tier
	hashes    []kv.Hash
	namespace kv.Hash
	timeout   time.Duration // of each tier's answer, and then of the remote tier's

	remote         *actor.PID // nil: no remote holders
	model, replica string
}

// blockLocation is the location of a block: in a tier, or at a remote holder.
type blockLocation struct {
	tier int // index of the fastest tier with the block, or len(tiers) plus the index of a holder
	slot int32
	hash kv.Hash // namespaced
}

// lookupResult is the result of a lookup: the locations of the leading blocks. The blocks in tiers
// are locked. The lock ends with the context of the lookup, since the result may never be received,
// unless the receiver calls claim. The receiver then has to unlock the blocks.
type lookupResult struct {
	locations []blockLocation
	holders   []remoteHolder
	claim     func() bool
}

// run finds the leading blocks. A tier that does not answer in time counts as empty.
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
	for i := len(asked) - 1; i >= 0; i-- { // the fastest tier last, so that it wins
		if answer, err := asked[i].Result(); err == nil {
			for _, b := range answer.(*messages.LockBlocksResult).GetLocked() {
				below[kv.Hash(b.GetHash())] = blockLocation{i, int32(b.GetIndex()), kv.Hash(b.GetHash())}
			}
		}
	}
	var locations []blockLocation
	for _, h := range wanted {
		p, ok := below[kv.Hash(h)]
		if !ok {
			break
		}
		locations = append(locations, p)
	}
	all := lookupResult{locations: locations}
	s.findRemote(&all)
	all.claim = context.AfterFunc(life, func() { s.unlock(nil) })
	return all, nil
}

// unlock releases the locks and reports damaged blocks to their tiers.
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
