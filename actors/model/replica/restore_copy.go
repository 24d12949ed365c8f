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
		below       []bool // by block: the tier has it now
		err         error
	}
	lookupDone struct {
		incarnation  uint64
		id           string
		hashes       []kv.Hash       // of the blocks that the sequence can start with
		have         int             // leading blocks in HBM
		lookupResult                 // of the blocks after them, up to the first gap
		lookup       tierLookup      // it holds the locks of the found blocks
		command      *restoreCommand // nil: for a sequence
	}
	restoreDone struct {
		incarnation uint64
		id          string
		begin       []int32 // blocks before the restored ones
		blocks      []int32
		hashes      []kv.Hash       // of blocks[i]
		locations   []blockLocation // of blocks[i]
		result      restoreResult
		overlap     *overlap // nil if no sequence can start before the restore ends
		command     *restoreCommand
		err         error
	}
	offloadRetry struct{ incarnation uint64 }
)

// tierRequest returns a new request id.
func (r *replica) tierRequest() string {
	r.kvTiers.lastRequest++
	return fmt.Sprintf("%s-%d-%d-%d", r.Spec.GetName(), r.lastAttempt, r.incarnation, r.kvTiers.lastRequest)
}

var errNotFetched = errors.New("not received in time, or damaged")

// restoreCopy copies blocks to HBM, from the tiers and from remote holders in parallel.
type restoreCopy struct {
	lookup tierLookup
	to     Blocks
	bulk   Bulk
	lookupResult
	blocks  []int32 // destinations; may be fewer than locations
	timeout time.Duration
	copied  kvstore.Report
	restore *kvstore.LayerRestore // of all blocks
}

// restoreResult is the result of a restoreCopy: the number of leading blocks that were restored,
// the rate of each tier, and the fetches from each holder.
type restoreResult struct {
	blocks  int
	rates   []kv.Rate
	fetches []remoteFetch
}

// run restores the blocks and returns once no copy is in progress.
func (c restoreCopy) run(life context.Context) (done restoreResult, err error) {
	c.claim()
	ctx, end := context.WithTimeout(life, c.timeout)
	defer end()
	var damaged []blockLocation
	defer func() { c.lookup.unlock(damaged) }()
	runs := c.remoteRuns()
	done.rates, done.fetches = make([]kv.Rate, len(c.lookup.tiers)), make([]remoteFetch, len(runs))
	var fetches sync.WaitGroup
	for k, i := range runs {
		fetches.Go(func() { done.fetches[k] = c.fetchRun(ctx, i) })
	}
	took := c.restore.Run(ctx)
	fetches.Wait()
	damaged = c.collect(&done, took)
	return done, c.restore.Err()
}

// collect records the results and returns the locations of damaged blocks.
func (c restoreCopy) collect(done *restoreResult, took []time.Duration) (damaged []blockLocation) {
	size, contiguous, copied, late := c.to.BlockBytes(), true, make([]int, len(took)), make([]bool, len(took))
	for i, m := range c.restore.Moves() {
		p := c.locations[i]
		if contiguous = contiguous && m.Done; contiguous {
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
				copied[m.From]++
			}
		}
	}
	for i, n := range copied {
		if late[i] {
			// One block took longer than this. Without it, a tier that became slow would keep its rate.
			n = max(n, 1)
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

// newLayerRestore returns the restore of all blocks in the given number of parts.
func (c restoreCopy) newLayerRestore(parts int, opened func(arrived int)) *kvstore.LayerRestore {
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

// remoteRuns returns the first block of each run of blocks that one holder has.
func (c restoreCopy) remoteRuns() (first []int) {
	for i, n := 0, 0; i < len(c.blocks); i += n {
		if n = len(c.sourceRun(i)); c.locations[i].tier >= len(c.lookup.tiers) {
			first = append(first, i)
		}
	}
	return first
}

// sourceRun returns the locations from i on that have the same tier or holder, limited by the
// number of destinations.
func (c restoreCopy) sourceRun(i int) []blockLocation {
	j := i
	for j < len(c.blocks) && c.locations[j].tier == c.locations[i].tier {
		j++
	}
	return c.locations[i:j]
}
