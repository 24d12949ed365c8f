package replica

import (
	"context"
	"errors"
	"fmt"
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
	buffer := make([]byte, o.from.BlockBytes())
	var written [][]byte
	for _, slot := range result.GetReserved().GetSlots() {
		h, began := kv.Hash(slot.GetHash()), time.Now()
		if err = o.from.Read(ctx, o.blocks[at[h]].Block, buffer); err != nil {
			break
		}
		if err = o.to.Store.Write(ctx, int32(slot.GetIndex()), h, buffer); err != nil {
			break
		}
		o.copied(hbmTier, o.to.Name, len(buffer), time.Since(began))
		below[at[h]], written = true, append(written, slot.GetHash())
	}
	commit = &messages.CommitBlocks{RequestId: o.request, Written: written}
	return below, err
}

// search asks the tiers for blocks, and locks those that are there; then the router for those that follow.
type search struct {
	request string
	root    *actor.RootContext
	tiers   []Tier
	hashes  []kv.Hash
	space   kv.Hash

	router         *actor.PID // nil: no other holder is looked for
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

// unlock ends what run began, and tells of a block that was damaged; nil: none was.
func (s search) unlock(damaged *place) {
	for i, t := range s.tiers {
		msg := &messages.UnlockBlocks{RequestId: s.request}
		if damaged != nil && damaged.tier == i {
			msg.Damaged = [][]byte{damaged.hash[:]}
		}
		s.root.Send(t.Actor, msg)
	}
}

// climb copies blocks up to HBM, from the tiers and from other holders.
type climb struct {
	search search
	to     Blocks
	bulk   Bulk
	findings
	blocks []int32 // where they go to; may be fewer than places
	within time.Duration
	rates  []kv.Rate // by tier
	copied func(from, to string, bytes int, took time.Duration)
}

// climbed is how far it came: so many leading blocks, and how fast by tier and by holder.
type climbed struct {
	blocks  int
	rates   []kv.Rate
	fetches []fetch
}

// run stops at the first block that does not come.
func (c climb) run(life context.Context) (done climbed, err error) {
	var damaged *place
	defer func() { c.search.unlock(damaged) }()
	ctx, end := context.WithTimeout(life, c.within)
	defer end()
	done.rates = c.rates
	buffer := make([]byte, c.to.BlockBytes())
	for done.blocks < len(c.blocks) && err == nil {
		p := c.places[done.blocks]
		if p.tier >= len(c.search.tiers) {
			var f fetch
			f, err = c.fetch(ctx, done.blocks)
			done.fetches = append(done.fetches, f)
			done.blocks += f.Blocks
			for range f.Blocks {
				c.copied(remoteTier, hbmTier, len(buffer), f.All/time.Duration(f.Blocks))
			}
			continue
		}
		began := time.Now()
		err = c.search.tiers[p.tier].Store.Read(ctx, p.slot, p.hash, buffer)
		if errors.Is(err, tier.ErrDamaged) {
			damaged = &p
		}
		if err == nil {
			err = c.to.Write(ctx, c.blocks[done.blocks], buffer)
		}
		if err == nil {
			took := time.Since(began)
			c.copied(c.search.tiers[p.tier].Name, hbmTier, len(buffer), took)
			done.rates[p.tier].Add(float64(len(buffer)), took)
			done.blocks++
		}
	}
	return done, err
}
