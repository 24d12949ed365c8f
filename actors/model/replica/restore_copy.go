package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"troupe/core/kv"
	"troupe/engine/kvstore"
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
	tiersRested struct{ incarnation uint64 }
)

// tierRequest is a new request id.
func (r *replica) tierRequest() string {
	r.lower.requests++
	return fmt.Sprintf("%s-%d-%d-%d", r.Spec.GetName(), r.attempt, r.incarnation, r.lower.requests)
}

var errNotFetched = errors.New("it did not come, in time or intact")

// climb copies blocks up to HBM, from the tiers and from other holders, all side by side.
type climb struct {
	search search
	to     Blocks
	bulk   Bulk
	findings
	blocks []int32 // where they go to; may be fewer than places
	within time.Duration
	copied kvstore.Report
	rise   *kvstore.LayerRestore // of all blocks
}

// climbed is how far it came: so many leading blocks, and how fast by tier and by holder.
type climbed struct {
	blocks  int
	rates   []kv.Rate
	fetches []fetch
}

// run ends when nothing is copied any more.
func (c climb) run(life context.Context) (done climbed, err error) {
	c.claim()
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
		if leads = leads && m.Done; leads {
			done.blocks++
		}
		if errors.Is(m.Err, kvstore.ErrDamaged) {
			damaged = append(damaged, p)
		}
		if m.From != kvstore.RemoteSource && errors.Is(m.Err, context.DeadlineExceeded) {
			late[m.From] = true
		}
		if m.From != kvstore.RemoteSource {
			c.copied(c.search.tiers[m.From].Name, hbmTier, size, m.Move)
			if m.Done {
				came[m.From]++
			}
		}
	}
	for i, n := range came {
		if late[i] {
			n = max(n, 1) // it took longer than this for one: else a disk that is slow now would count as fast as it was
		}
		done.rates[i].Add(float64(n*size), took[i])
	}
	for _, f := range done.fetches {
		for i := range f.wanted {
			m := kvstore.Move{Err: errNotFetched}
			if i < f.Blocks {
				m = kvstore.Move{Done: true, Took: f.All / time.Duration(f.Blocks)}
			}
			c.copied(remoteTier, hbmTier, size, m)
		}
	}
	return damaged
}

// riseOf is the way up of all blocks.
func (c climb) riseOf(parts int, opened func(came int)) *kvstore.LayerRestore {
	stores := make([]kvstore.Store, len(c.search.tiers))
	for i, t := range c.search.tiers {
		stores[i] = t.Store
	}
	all := make([]kvstore.BlockRestore, len(c.blocks))
	for i, b := range c.blocks {
		p := c.places[i]
		all[i] = kvstore.BlockRestore{From: p.tier, Move: kvstore.Move{Block: b, Slot: p.slot, Hash: p.hash}}
		if p.tier >= len(stores) {
			all[i].From = kvstore.RemoteSource
		}
	}
	return kvstore.NewLayerRestore(c.to, stores, all, parts, opened)
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
