package replica

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/core/kv"
	"troupe/engine/tier"
	"troupe/messages"
)

// remoteTier is what other holders are called together, beside the names of tiers.
const remoteTier = "remote"

// maxLinks bounds how many ways to other holders are remembered.
const maxLinks = 256

// holder is who may have blocks that this node has not: another replica, or a tier of another node.
type holder struct {
	name string // for people
	pid  *actor.PID
}

// fetch is one use of the way to a holder.
type fetch struct {
	holder holder
	kv.Fetch
	wanted int // blocks
}

// elsewhere asks the router who holds the blocks that follow those that were found below.
func (s search) elsewhere(all *findings) {
	rest := s.hashes[len(all.places):]
	if s.router == nil || len(rest) == 0 {
		return
	}
	inTiers := make([]uint64, len(rest))
	for i, h := range rest {
		inTiers[i] = h.Within(s.space).Short()
	}
	answer, err := s.root.RequestFuture(s.router, &messages.FindBlocks{
		RequestId: s.request, Model: s.model, Replica: s.replica, Blocks: kv.Shorts(rest), InTiers: inTiers,
	}, lookWithin).Result()
	if err != nil {
		return
	}
	result, _ := answer.(*messages.FindBlocksResult)
	for _, run := range result.GetHeld() {
		for range min(int(run.GetBlocks()), len(s.hashes)-len(all.places)) {
			all.places = append(all.places, place{tier: len(s.tiers) + len(all.holders)})
		}
		all.holders = append(all.holders, holder{run.GetName(), pidOf(run.GetHolder())})
	}
}

// fetch has a holder send the run of its blocks that begins with block i, straight to where they go. It ends with the context, however far it
// came.
func (c climb) fetch(ctx context.Context, i int) (f fetch, err error) {
	j := i + len(c.together(i))
	f = fetch{holder: c.holders[c.places[i].tier-len(c.search.tiers)], wanted: j - i}
	hashes, began := c.search.hashes[i:j], time.Now()
	in := &inlet{life: ctx, blocks: c.to, table: c.blocks[i:j], got: make([]bool, j-i)}
	ticket, err := c.bulk.Expect(c.to.BlockBytes()+tier.SealBytes, uint32(j-i), func(index uint32, sealed []byte) error {
		if int(index) >= len(hashes) {
			return fmt.Errorf("block %d of %d", index, len(hashes))
		}
		block, err := tier.Unseal(hashes[index].Within(c.search.space), sealed)
		if err != nil {
			return err
		}
		return in.put(index, block)
	})
	if err == nil {
		err = c.lease(ctx, f.holder, fmt.Sprintf("%s-%d", c.search.request, i), hashes, ticket)
		in.shut()
		c.bulk.Drop(ticket)
	}
	in.fetched(&f.Fetch, began)
	f.BlockBytes = c.to.BlockBytes()
	if err == nil && f.Blocks < f.wanted {
		err = fmt.Errorf("it has %d of %d blocks", f.Blocks, f.wanted)
	}
	if err != nil {
		err = fmt.Errorf("fetch from %s: %w", f.holder.name, err)
	}
	return f, err
}

// lease returns when the holder has sent what it has of the blocks.
func (c climb) lease(ctx context.Context, from holder, id string, hashes []kv.Hash, ticket *messages.BulkTicket) error {
	deadline, _ := ctx.Deadline()
	lease := time.Until(deadline)
	answer, err := c.search.root.RequestFuture(from.pid, &messages.LeaseBlocks{
		RequestId: id, Hashes: bytesOf(hashes), Space: c.search.space[:], BlockBytes: uint64(c.to.BlockBytes()), Ticket: ticket, Lease: durationpb.New(lease),
	}, lease).Result()
	if err != nil {
		c.search.root.Send(from.pid, &messages.ReleaseBlocks{RequestId: id})
		return err
	}
	result, ok := answer.(*messages.LeaseBlocksResult)
	switch {
	case !ok:
		return fmt.Errorf("it is gone")
	case result.GetRefused() != nil:
		return fmt.Errorf("refused: %s", result.GetRefused().GetDetail())
	}
	return nil
}

// fetched measures what came in since then: the leading blocks, which alone are of use.
func (in *inlet) fetched(f *kv.Fetch, began time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for f.Blocks < len(in.got) && in.got[f.Blocks] {
		f.Blocks++
	}
	f.First, f.All = time.Since(began), time.Since(began)
	if f.Blocks > 0 {
		f.First, f.All = in.first.Sub(began), in.heard.Sub(began)
	}
}

// link is what is known of the way to a holder.
func (l *lower) link(to holder) *kv.Link {
	key := to.pid.String()
	if l.links[key] == nil {
		if len(l.links) >= maxLinks {
			clear(l.links) // they are measured anew
		}
		l.links[key] = &kv.Link{}
	}
	return l.links[key]
}

// fetched takes what was measured on the ways to holders.
func (l *lower) fetched(all []fetch) {
	for _, f := range all {
		l.link(f.holder).Add(f.Fetch, time.Now())
		l.totals.fetched += uint64(f.Blocks)
		l.totals.fetchFailed += uint64(f.wanted - f.Blocks)
	}
}
