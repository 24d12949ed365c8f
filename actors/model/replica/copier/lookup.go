package copier

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

// lookup locks blocks in the tiers and finds remote holders of the blocks that follow.
type lookup struct {
	number    uint64 // of the lookup and its copy
	request   string // id in requests to the tiers and to the remote tier
	tiers     []Tier
	hashes    []kv.Hash
	namespace kv.Hash
	within    time.Duration // limit of each tier's answer, and then of the remote tier's answer

	remote         *actor.PID // nil: no remote holders
	model, replica string

	found found // set when the lookup is done
}

// found is the result of a lookup: the locations of the leading blocks. The blocks in tiers are
// locked.
type found struct {
	locations []location
	holders   []*messages.BlocksHeld
}

// location is the location of a block: in a tier, or at a remote holder.
type location struct {
	tier int // index of the fastest tier with the block, or len(tiers) plus the index of a holder
	slot int32
	hash kv.Hash // namespaced
}

// run finds the leading blocks. A tier that does not answer in time counts as empty. If life has
// ended by then, run unlocks the blocks.
func (l *lookup) run(life context.Context, root *actor.RootContext) found {
	wanted := make([][]byte, len(l.hashes))
	for i, h := range l.hashes {
		inSpace := h.Namespaced(l.namespace)
		wanted[i] = inSpace[:]
	}
	asked := make([]*supervise.Answer, len(l.tiers))
	for i, t := range l.tiers {
		request := &messages.LockBlocks{RequestId: l.request, Hashes: wanted}
		asked[i] = supervise.Request(root, t.Actor, request, l.within)
	}
	below := make(map[kv.Hash]location)
	for i := len(asked) - 1; i >= 0; i-- { // the fastest tier is last, so that it takes precedence
		if answer, err := asked[i].Result(); err == nil {
			for _, b := range answer.(*messages.LockBlocksResult).GetLocked() {
				below[kv.Hash(b.GetHash())] = location{i, int32(b.GetIndex()), kv.Hash(b.GetHash())}
			}
		}
	}
	var all found
	for _, h := range wanted {
		p, ok := below[kv.Hash(h)]
		if !ok {
			break
		}
		all.locations = append(all.locations, p)
	}
	l.findRemote(root, &all)
	if life.Err() != nil {
		l.unlock(root, nil)
	}
	return all
}

// findRemote asks the remote tier for holders of the blocks that follow those in the tiers.
func (l *lookup) findRemote(root *actor.RootContext, all *found) {
	rest := l.hashes[len(all.locations):]
	if l.remote == nil || len(rest) == 0 {
		return
	}
	inTiers := make([]uint64, len(rest))
	for i, h := range rest {
		inTiers[i] = h.Namespaced(l.namespace).Fingerprint64()
	}
	answer, err := supervise.Request(root, l.remote, &messages.FindBlocks{
		RequestId: l.request, Model: l.model, Replica: l.replica, Blocks: kv.Fingerprints(rest), InTiers: inTiers,
	}, l.within).Result()
	if err != nil {
		return
	}
	result, _ := answer.(*messages.FindBlocksResult)
	for _, run := range result.GetHeld() {
		for range min(int(run.GetBlocks()), len(l.hashes)-len(all.locations)) {
			all.locations = append(all.locations, location{tier: len(l.tiers) + len(all.holders)})
		}
		all.holders = append(all.holders, run)
	}
}

// unlock releases the locks and reports damaged blocks to their tiers.
func (l *lookup) unlock(root *actor.RootContext, damaged []location) {
	for i, t := range l.tiers {
		msg := &messages.UnlockBlocks{RequestId: l.request}
		for _, p := range damaged {
			if p.tier == i {
				msg.Damaged = append(msg.Damaged, p.hash[:])
			}
		}
		root.Send(t.Actor, msg)
	}
}

func (l *lookup) result() *messages.LookUpBlocksResult {
	r := &messages.LookUpBlocksResult{Copy: l.number, Sources: make([]uint32, len(l.found.locations)),
		Holders: l.found.holders}
	for i, p := range l.found.locations {
		r.Sources[i] = uint32(p.tier)
	}
	return r
}

func hashesOf(raw [][]byte) []kv.Hash {
	all := make([]kv.Hash, len(raw))
	for i, h := range raw {
		all[i] = kv.Hash(h)
	}
	return all
}

func bytesOf(hashes []kv.Hash) [][]byte {
	all := make([][]byte, len(hashes))
	for i := range hashes {
		all[i] = hashes[i][:]
	}
	return all
}
