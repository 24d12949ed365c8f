package kvstore

import (
	"context"
	"sync"
	"time"

	"troupe/cuda"
)

// LayeredBlocks are Blocks that can be filled layer by layer; see engine.Blocks.
type LayeredBlocks interface {
	Blocks
	Layers() int
	// ReadPart fills into with a block's bytes from offset at.
	ReadPart(ctx context.Context, block int32, at int, into []byte) error
	// WritePart copies from into a block at offset at and returns when the copy is done. It calls
	// queued once the copy is queued, so that a later Mark comes after it.
	WritePart(ctx context.Context, block int32, at int, from []byte, queued func()) error
	Mark() (cuda.Event, error)
}

// BlockRestore is the restore of one block.
type BlockRestore struct {
	From int // index of its store, or RemoteSource: PutPart receives its parts
	Move
	parts int // number of parts copied
}

// RemoteSource is the From of blocks that no store of this node has.
const RemoteSource = -1

// LayerRestore restores blocks part by part: the first layers of all blocks, then the next layers
// of all. As an engine.Gate it lets a step use a part once every block's copy is verified and
// queued to the device. If a block fails, the blocks before it are still restored, but the gate
// does not open further.
type LayerRestore struct {
	to      LayeredBlocks
	stores  []Store
	all     []BlockRestore
	parts   int
	layers  int            // layers per part but the last
	onOpen  func(came int) // called for each further part that is open
	readers []Reading      // one per block

	mu      sync.Mutex
	missing []int        // per part: number of blocks whose copy is not queued
	ready   []cuda.Event // per part: event after all copies, set when no block is missing
	open    int          // number of leading parts that are open
	limit   int          // blocks from here on are not restored
	err     error        // error of the block at index limit
	changed chan struct{}
}

// NewLayerRestore prepares a restore in at most the given number of parts. It calls onOpen in
// order; onOpen must not block.
func NewLayerRestore(
	to LayeredBlocks,
	stores []Store,
	all []BlockRestore,
	parts int,
	onOpen func(came int),
) *LayerRestore {
	layers := (to.Layers() + parts - 1) / parts
	parts = (to.Layers() + layers - 1) / layers
	r := &LayerRestore{
		to:      to,
		stores:  stores,
		all:     all,
		parts:   parts,
		layers:  layers,
		onOpen:  onOpen,
		readers: make([]Reading, len(all)),
		missing: make([]int, parts),
		ready:   make([]cuda.Event, parts),
		limit:   len(all),
		changed: make(chan struct{}),
	}
	for i, a := range all {
		r.readers[i] = Reading{Slot: a.Slot, Hash: a.Hash, Bytes: to.BlockBytes()}
	}
	for p := range r.missing {
		r.missing[p] = len(all)
	}
	return r
}

// Parts returns the number of parts per block.
func (r *LayerRestore) Parts() int { return r.parts }

// Moves returns the result of each block. Call it after Run has returned.
func (r *LayerRestore) Moves() []BlockRestore { return r.all }

// PartBytes returns the size of each part of a block but the last.
func (r *LayerRestore) PartBytes() int { return r.to.BlockBytes() / r.to.Layers() * r.layers }

// Err returns the error of the first block that is not restored, or nil if none has failed.
func (r *LayerRestore) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Run restores the blocks of the stores and returns, per store, the time it took. When it returns,
// no such copy is running, and each block's result is recorded.
func (r *LayerRestore) Run(ctx context.Context) (took []time.Duration) {
	took = make([]time.Duration, len(r.stores))
	var workers sync.WaitGroup
	for s, store := range r.stores {
		var mine []int
		for i := range r.all {
			if r.all[i].From == s {
				mine = append(mine, i)
			}
		}
		workers.Go(func() {
			began := time.Now()
			r.restoreFrom(ctx, store, mine)
			took[s] = time.Since(began)
		})
	}
	workers.Wait()
	return took
}

// restoreFrom restores a store's blocks with as many workers as the store's Depth. Each worker has
// its own blocks.
func (r *LayerRestore) restoreFrom(ctx context.Context, store Store, mine []int) {
	n := min(store.Depth(), len(mine))
	var workers sync.WaitGroup
	for w := range n {
		workers.Go(func() {
			for part := range r.parts {
				for at := w; at < len(mine); at += n {
					if i := mine[at]; r.Wanted(i) {
						r.copyPart(ctx, store, i, part)
					}
				}
			}
		})
	}
	workers.Wait()
}

// Wanted reports whether a block is still worth copying.
func (r *LayerRestore) Wanted(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return i < r.limit
}

// copyPart copies one part of one block.
func (r *LayerRestore) copyPart(ctx context.Context, store Store, i, part int) {
	from, to := part*r.PartBytes(), min((part+1)*r.PartBytes(), r.to.BlockBytes())
	r.recordPart(i, func(m *Move) error {
		return store.ViewRange(ctx, &r.readers[i], from, to, func(b []byte) error {
			return r.to.WritePart(ctx, m.Block, from, b, func() { r.partQueued(part) })
		})
	})
}

// PutPart copies a verified part of a block from a remote source. Each part is put once, in any
// order, and the parts of one block are not put concurrently.
func (r *LayerRestore) PutPart(ctx context.Context, i, part int, b []byte) error {
	return r.recordPart(i, func(m *Move) error {
		return r.to.WritePart(ctx, m.Block, part*r.PartBytes(), b, func() { r.partQueued(part) })
	})
}

// recordPart runs the copy of a part and records its result.
func (r *LayerRestore) recordPart(i int, bring func(m *Move) error) error {
	a, began := &r.all[i], time.Now()
	a.Err = bring(&a.Move)
	a.Took += time.Since(began)
	if a.Err != nil {
		r.Fail(i, a.Err)
		return a.Err
	}
	a.parts++
	a.Done = a.parts == r.parts
	return nil
}

// partQueued counts a block whose part is queued. With the last block the part opens: its event
// follows the copies of all.
func (r *LayerRestore) partQueued(part int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.missing[part]--; r.missing[part] > 0 {
		return
	}
	event, err := r.to.Mark()
	if err != nil {
		r.failLocked(0, err)
		return
	}
	r.ready[part] = event
	for r.open < r.parts && r.ready[r.open] != nil {
		r.open++
		r.onOpen(r.open)
	}
	r.notify()
}

// Fail records that a block cannot be restored.
func (r *LayerRestore) Fail(i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failLocked(i, err)
}

// failLocked gives up the blocks from i on. r.mu is held.
func (r *LayerRestore) failLocked(i int, err error) {
	if i < r.limit {
		r.limit, r.err = i, err
		r.notify()
	}
}

func (r *LayerRestore) notify() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// Pass implements engine.Gate.
func (r *LayerRestore) Pass(ctx context.Context, layer int) (ready cuda.Event, next int, err error) {
	part := layer / r.layers
	for {
		r.mu.Lock()
		ready, err, news := r.ready[part], r.err, r.changed
		r.mu.Unlock()
		switch {
		case err != nil:
			return nil, 0, err
		case ready != nil:
			return ready, (part + 1) * r.layers, nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		}
	}
}
