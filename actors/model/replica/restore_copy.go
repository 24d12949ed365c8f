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
	offloadDone struct {
		incarnation uint64
		blocks      []kv.Committed
		below       []bool // of each block: the tier has it now
		err         error
	}
	lookupDone struct {
		incarnation  uint64
		id           string
		hashes       []kv.Hash       // of the blocks that the sequence can begin with
		have         int             // of them, in HBM
		lookupResult                 // of those that follow, as far as there is no gap
		lookup       tierLookup      // holds them locked
		command      *restoreCommand // nil: it is for a sequence
	}
	restoreDone struct {
		incarnation uint64
		id          string
		begin       []int32 // blocks before those that were restoreDone
		blocks      []int32
		hashes      []kv.Hash       // of blocks
		locations   []blockLocation // of blocks
		result      restoreResult
		overlap     *overlap // nil: nobody could begin before it ended
		command     *restoreCommand
		err         error
	}
	offloadRetry struct{ incarnation uint64 }
)

// tierRequest is a new request id.
func (r *replica) tierRequest() string {
	r.kvTiers.lastRequest++
	return fmt.Sprintf("%s-%d-%d-%d", r.Spec.GetName(), r.lastAttempt, r.incarnation, r.kvTiers.lastRequest)
}

var errNotFetched = errors.New("it did not come, in time or intact")

// climb copies blocks up to HBM, from the tiers and from other holders, all side by side.
type restoreCopy struct {
	lookup tierLookup
	to     Blocks
	bulk   Bulk
	lookupResult
	blocks  []int32 // where they go to; may be fewer than places
	timeout time.Duration
	copied  kvstore.Report
	restore *kvstore.LayerRestore // of all blocks
}

// result is how far it came: so many leading blocks, and how fast by tier and by holder.
type restoreResult struct {
	blocks  int
	rates   []kv.Rate
	fetches []remoteFetch
}

// run ends when nothing is copied any more.
func (c restoreCopy) run(life context.Context) (done restoreResult, err error) {
	c.claim()
	ctx, end := context.WithTimeout(life, c.timeout)
	defer end()
	var damaged []blockLocation
	defer func() { c.lookup.unlock(damaged) }()
	runs := c.remoteRuns()
	done.rates, done.fetches = make([]kv.Rate, len(c.lookup.tiers)), make([]remoteFetch, len(runs))
	var sides sync.WaitGroup
	for k, i := range runs {
		sides.Go(func() { done.fetches[k] = c.fetchRun(ctx, i) })
	}
	took := c.restore.Run(ctx)
	sides.Wait()
	damaged = c.collect(&done, took)
	return done, c.restore.Err()
}

// settle takes note of what came, and returns what was damaged.
func (c restoreCopy) collect(done *restoreResult, took []time.Duration) (damaged []blockLocation) {
	size, leads, came, late := c.to.BlockBytes(), true, make([]int, len(took)), make([]bool, len(took))
	for i, m := range c.restore.Moves() {
		p := c.locations[i]
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
			c.copied(c.lookup.tiers[m.From].Name, hbmTier, size, m.Move)
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

// newLayerRestore is the way up of all blocks.
func (c restoreCopy) newLayerRestore(parts int, opened func(came int)) *kvstore.LayerRestore {
	stores := make([]kvstore.Store, len(c.lookup.tiers))
	for i, t := range c.lookup.tiers {
		stores[i] = t.Store
	}
	all := make([]kvstore.BlockRestore, len(c.blocks))
	for i, b := range c.blocks {
		p := c.locations[i]
		all[i] = kvstore.BlockRestore{From: p.tier, Move: kvstore.Move{Block: b, Slot: p.slot, Hash: p.hash}}
		if p.tier >= len(stores) {
			all[i].From = kvstore.RemoteSource
		}
	}
	return kvstore.NewLayerRestore(c.to, stores, all, parts, opened)
}

// runs are where runs of blocks begin that one holder has.
func (c restoreCopy) remoteRuns() (first []int) {
	for i, n := 0, 0; i < len(c.blocks); i += n {
		if n = len(c.sourceRun(i)); c.locations[i].tier >= len(c.lookup.tiers) {
			first = append(first, i)
		}
	}
	return first
}

// sourceRun are the places from i on that are in one tier, or with one holder; as many as there is room for.
func (c restoreCopy) sourceRun(i int) []blockLocation {
	j := i
	for j < len(c.blocks) && c.locations[j].tier == c.locations[i].tier {
		j++
	}
	return c.locations[i:j]
}
