package copier

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// The names of HBM and of all remote holders in metrics, next to the names of tiers.
const (
	hbmTier    = "hbm"
	remoteTier = "remote"
)

var errNotFetched = errors.New("not received in time, or damaged")

// restore copies blocks to HBM, from the tiers and from remote holders in parallel.
type restore struct {
	lookup  *lookup
	to      Blocks
	bulk    Bulk
	blocks  []int32 // destinations; possibly fewer than locations
	timeout time.Duration
	copied  kvstore.Report
	root    *actor.RootContext
	runtime supervise.Runtime
	layers  *kvstore.LayerRestore // of all blocks
}

// run copies the blocks. It returns once no copy is in progress.
func (r restore) run(life context.Context) (done *messages.CopyFoundBlocksResult, err error) {
	ctx, end := r.runtime.WithTimeout(life, r.timeout)
	defer end()
	var damaged []location
	defer func() { r.lookup.unlock(r.root, damaged) }()
	runs := r.remoteRuns()
	fetched := make([]fetch, len(runs))
	var fetches sync.WaitGroup
	for k, i := range runs {
		fetches.Add(1)
		r.runtime.Go(func() {
			defer fetches.Done()
			fetched[k] = r.fetchRun(ctx, i)
		})
	}
	took := r.layers.Run(ctx)
	fetches.Wait()
	done = &messages.CopyFoundBlocksResult{Copy: r.lookup.number, Reads: make([]*messages.TierRead, len(took))}
	damaged = r.collectTiers(done, took)
	r.collectFetches(done, fetched)
	return done, r.layers.Err()
}

// collectTiers records the leading blocks that arrived and the bytes read from the tiers. It
// returns the locations of damaged blocks.
func (r restore) collectTiers(done *messages.CopyFoundBlocksResult, took []time.Duration) (damaged []location) {
	size, contiguous, copied, late := r.to.BlockBytes(), true, make([]int, len(took)), make([]bool, len(took))
	for i, m := range r.layers.Moves() {
		if contiguous = contiguous && m.Done; contiguous {
			done.Blocks++
		}
		if errors.Is(m.Err, kvstore.ErrDamaged) {
			damaged = append(damaged, r.lookup.found.locations[i])
		}
		if m.From == kvstore.RemoteSource {
			continue
		}
		late[m.From] = late[m.From] || errors.Is(m.Err, context.DeadlineExceeded)
		r.copied(r.lookup.tiers[m.From].Name, hbmTier, size, m.Move)
		if m.Done {
			copied[m.From]++
		}
	}
	for i, n := range copied {
		if late[i] {
			// At least one block took this long. If it were not counted, a tier that became slow
			// would keep its rate.
			n = max(n, 1)
		}
		done.Reads[i] = &messages.TierRead{Bytes: uint64(n * size), Took: durationpb.New(took[i])}
	}
	return damaged
}

// collectFetches records the blocks that remote holders sent or failed to send.
func (r restore) collectFetches(done *messages.CopyFoundBlocksResult, all []fetch) {
	for _, f := range all {
		done.Fetched += uint32(f.Blocks)
		done.FetchFailed += uint32(f.wanted - f.Blocks)
		for i := range f.wanted {
			m := kvstore.Move{Err: errNotFetched}
			if i < f.Blocks {
				m = kvstore.Move{Done: true, Took: f.All / time.Duration(f.Blocks)}
			}
			r.copied(remoteTier, hbmTier, r.to.BlockBytes(), m)
		}
	}
}

// newLayerRestore returns a restore of all blocks in the given number of parts.
func (r restore) newLayerRestore(parts int, opened func(arrived int)) *kvstore.LayerRestore {
	stores := make([]kvstore.Store, len(r.lookup.tiers))
	for i, t := range r.lookup.tiers {
		stores[i] = t.Store
	}
	all := make([]kvstore.BlockRestore, len(r.blocks))
	for i, b := range r.blocks {
		p := r.lookup.found.locations[i]
		all[i] = kvstore.BlockRestore{From: p.tier, Move: kvstore.Move{Block: b, Slot: p.slot, Hash: p.hash}}
		if p.tier >= len(stores) {
			all[i].From = kvstore.RemoteSource
		}
	}
	return kvstore.NewLayerRestore(r.to, stores, all, parts, opened)
}

// remoteRuns returns the first block of each run of blocks that one holder has.
func (r restore) remoteRuns() (first []int) {
	for i, n := 0, 0; i < len(r.blocks); i += n {
		if n = r.runLength(i); r.lookup.found.locations[i].tier >= len(r.lookup.tiers) {
			first = append(first, i)
		}
	}
	return first
}

// runLength returns the number of consecutive blocks from i on that are in the same tier or at the
// same holder. The number of destinations limits it.
func (r restore) runLength(i int) int {
	j, at := i, r.lookup.found.locations
	for j < len(r.blocks) && at[j].tier == at[i].tier {
		j++
	}
	return j - i
}
