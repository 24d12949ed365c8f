package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/core/kv"
	"troupe/engine/tier"
	"troupe/messages"
)

// Notes to self.
type (
	offloaded struct {
		incarnation uint64
		blocks      []kv.Committed
		below       []bool // of each block: the tier has it now
		err         error
	}
	located struct {
		incarnation uint64
		id          string
		hashes      []kv.Hash     // of the blocks that the sequence can begin with
		have        int           // of them, in HBM
		findings                  // of those that follow, as far as there is no gap
		search      search        // holds them locked
		order       *restoreOrder // nil: it is for a sequence
	}
	restored struct {
		incarnation uint64
		id          string
		begin       []int32 // blocks before those that were restored
		blocks      []int32
		hashes      []kv.Hash // of blocks
		places      []place   // of blocks
		climbed     climbed
		rising      *rising // nil: nobody could begin before it ended
		order       *restoreOrder
		err         error
	}
	spaced struct {
		incarnation uint64
		space       string
		err         error
	}
	tiersRested struct{ incarnation uint64 }
)

// tierRequest is a new request id.
func (r *replica) tierRequest() string {
	r.lower.requests++
	return fmt.Sprintf("%s-%d-%d-%d", r.Spec.GetName(), r.attempt, r.incarnation, r.lower.requests)
}

// offload copies blocks down to a tier: reserve, copy, commit.
type offload struct {
	request string
	root    *actor.RootContext
	from    Blocks
	to      Tier
	blocks  []kv.Committed
	space   kv.Hash
	copied  func(from, to string, bytes int, took time.Duration)
}

// run returns which of the blocks the tier has now.
func (o offload) run(ctx context.Context) (below []bool, err error) {
	commit := &messages.CommitBlocks{RequestId: o.request}
	defer func() { o.root.Send(o.to.Actor, commit) }()
	below = make([]bool, len(o.blocks))
	at := make(map[kv.Hash]int, len(o.blocks))
	hashes := make([][]byte, len(o.blocks))
	for i, b := range o.blocks {
		h := b.Hash.Within(o.space)
		at[h], hashes[i] = i, h[:]
	}
	answer, err := o.root.RequestFuture(o.to.Actor, &messages.ReserveSlots{
		RequestId: o.request, Hashes: hashes, BlockBytes: uint64(o.from.BlockBytes()),
	}, tierWithin).Result()
	if err != nil {
		return below, fmt.Errorf("tier %s: %w", o.to.Name, err)
	}
	result := answer.(*messages.ReserveSlotsResult)
	if refused := result.GetRefused(); refused != nil {
		return below, fmt.Errorf("tier %s: %s", o.to.Name, refused.GetDetail())
	}
	for _, h := range result.GetReserved().GetHeld() {
		below[at[kv.Hash(h)]] = true
	}
	moves := make([]tier.Move, len(result.GetReserved().GetSlots()))
	for i, slot := range result.GetReserved().GetSlots() {
		h := kv.Hash(slot.GetHash())
		moves[i] = tier.Move{Block: o.blocks[at[h]].Block, Slot: int32(slot.GetIndex()), Hash: h}
	}
	err = tier.Down(ctx, o.from, o.to.Store, moves)
	var written [][]byte
	for _, m := range moves {
		if m.Came {
			o.copied(hbmTier, o.to.Name, o.from.BlockBytes(), m.Took)
			below[at[m.Hash]], written = true, append(written, m.Hash[:])
		}
	}
	commit = &messages.CommitBlocks{RequestId: o.request, Written: written}
	return below, err
}

// search asks the tiers for blocks, and locks those that are there; then the remote tier for those that follow.
type search struct {
	request string
	root    *actor.RootContext
	tiers   []Tier
	hashes  []kv.Hash
	space   kv.Hash

	remote         *actor.PID // nil: no other holder is looked for
	model, replica string
}

// place is where a block lies: below, or with another holder.
type place struct {
	tier int // index of the fastest tier that has it; from len(tiers) on, of a holder
	slot int32
	hash kv.Hash // as the tiers know it
}

// findings are where the leading blocks lie.
type findings struct {
	places  []place
	holders []holder
}

// run looks for the leading blocks. Who does not answer has none.
func (s search) run(context.Context) (findings, error) {
	wanted := make([][]byte, len(s.hashes))
	for i, h := range s.hashes {
		inSpace := h.Within(s.space)
		wanted[i] = inSpace[:]
	}
	asked := make([]actor.Future, len(s.tiers))
	for i, t := range s.tiers {
		asked[i] = s.root.RequestFuture(t.Actor, &messages.LockBlocks{RequestId: s.request, Hashes: wanted}, lookWithin)
	}
	below := make(map[kv.Hash]place)
	for i := len(asked) - 1; i >= 0; i-- { // the fastest last, so that it counts
		if answer, err := asked[i].Result(); err == nil {
			for _, b := range answer.(*messages.LockBlocksResult).GetLocked() {
				below[kv.Hash(b.GetHash())] = place{i, int32(b.GetIndex()), kv.Hash(b.GetHash())}
			}
		}
	}
	var places []place
	for _, h := range wanted {
		p, ok := below[kv.Hash(h)]
		if !ok {
			break
		}
		places = append(places, p)
	}
	all := findings{places: places}
	s.elsewhere(&all)
	return all, nil
}

// unlock ends what run began, and tells of blocks that were damaged.
func (s search) unlock(damaged []place) {
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

// climb copies blocks up to HBM, from the tiers and from other holders, all side by side.
type climb struct {
	search search
	to     Blocks
	bulk   Bulk
	findings
	blocks []int32 // where they go to; may be fewer than places
	within time.Duration
	copied func(from, to string, bytes int, took time.Duration)
	rise   *tier.Rise // of all blocks
}

// climbed is how far it came: so many leading blocks, and how fast by tier and by holder.
type climbed struct {
	blocks  int
	rates   []kv.Rate
	fetches []fetch
}

// run ends when nothing is copied any more.
func (c climb) run(life context.Context) (done climbed, err error) {
	ctx, end := context.WithTimeout(life, c.within)
	defer end()
	var damaged []place
	defer func() { c.search.unlock(damaged) }()
	runs := c.runs()
	done.rates, done.fetches = make([]kv.Rate, len(c.search.tiers)), make([]fetch, len(runs))
	var sides sync.WaitGroup
	for k, i := range runs {
		sides.Go(func() { done.fetches[k] = c.fetch(ctx, i) })
	}
	took := c.rise.Run(ctx)
	sides.Wait()
	damaged = c.settle(&done, took)
	return done, c.rise.Err()
}

// settle takes note of what came, and returns what was damaged.
func (c climb) settle(done *climbed, took []time.Duration) (damaged []place) {
	size, leads, came, late := c.to.BlockBytes(), true, make([]int, len(took)), make([]bool, len(took))
	for i, m := range c.rise.Moves() {
		p := c.places[i]
		if leads = leads && m.Came; leads {
			done.blocks++
		}
		if errors.Is(m.Err, tier.ErrDamaged) {
			damaged = append(damaged, p)
		}
		if m.From != tier.Elsewhere && errors.Is(m.Err, context.DeadlineExceeded) {
			late[m.From] = true
		}
		if m.Came && m.From != tier.Elsewhere {
			came[m.From]++
			c.copied(c.search.tiers[m.From].Name, hbmTier, size, m.Took)
		}
	}
	for i, n := range came {
		if late[i] {
			n = max(n, 1) // it took longer than this for one: else a disk that is slow now would count as fast as it was
		}
		done.rates[i].Add(float64(n*size), took[i])
	}
	for _, f := range done.fetches {
		for range f.Blocks {
			c.copied(remoteTier, hbmTier, size, f.All/time.Duration(f.Blocks))
		}
	}
	return damaged
}

// riseOf is the way up of all blocks.
func (c climb) riseOf(parts int, opened func(came int)) *tier.Rise {
	stores := make([]tier.Store, len(c.search.tiers))
	for i, t := range c.search.tiers {
		stores[i] = t.Store
	}
	all := make([]tier.Ascent, len(c.blocks))
	for i, b := range c.blocks {
		p := c.places[i]
		all[i] = tier.Ascent{From: p.tier, Move: tier.Move{Block: b, Slot: p.slot, Hash: p.hash}}
		if p.tier >= len(stores) {
			all[i].From = tier.Elsewhere
		}
	}
	return tier.NewRise(c.to, stores, all, parts, opened)
}

// runs are where runs of blocks begin that one holder has.
func (c climb) runs() (first []int) {
	for i, n := 0, 0; i < len(c.blocks); i += n {
		if n = len(c.together(i)); c.places[i].tier >= len(c.search.tiers) {
			first = append(first, i)
		}
	}
	return first
}

// together are the places from i on that are in one tier, or with one holder; as many as there is room for.
func (c climb) together(i int) []place {
	j := i
	for j < len(c.blocks) && c.places[j].tier == c.places[i].tier {
		j++
	}
	return c.places[i:j]
}
