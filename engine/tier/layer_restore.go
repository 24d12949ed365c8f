package tier

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
	// ReadPart fills into from byte at of a block on.
	ReadPart(ctx context.Context, block int32, at int, into []byte) error
	// WritePart calls queued once the copy is on its way, so that a Mark from then on comes after it, and returns when it is done.
	WritePart(ctx context.Context, block int32, at int, from []byte, queued func()) error
	Mark() (cuda.Event, error)
}

// Parts is in how many parts a block of so many bytes and layers comes up: runs of layers of at least partBytes.
func Parts(blockBytes, layers, partBytes int) int {
	layers = max(layers, 1)
	most := min(max(blockBytes/max(partBytes, 1), 1), layers)
	each := (layers + most - 1) / most
	return (layers + each - 1) / each
}

// Ascent is the way of one block up.
type Ascent struct {
	From int // index of its store; Elsewhere: its parts are given to Take
	Move
	parts int // that have come
}

// Elsewhere is where blocks come from that no store of this node has.
const Elsewhere = -1

// Rise brings blocks up part by part: the first layers of all blocks, then the next of all. As an engine.Gate it lets a step use each part as soon
// as every block's was checked and is on its way to the device. Where a block fails, those before it still come; the gate stays shut.
type Rise struct {
	to      LayeredBlocks
	stores  []Store
	all     []Ascent
	parts   int
	layers  int            // of a part, but for the last
	opened  func(came int) // told of each further part that all blocks have
	readers []Reading      // of all

	mu    sync.Mutex
	lacks []int        // by part: blocks whose part is not on its way
	ready []cuda.Event // by part that no block lacks
	came  int          // leading parts that no block lacks
	lead  int          // blocks from here on do not come
	err   error        // of block lead
	news  chan struct{}
}

// NewRise prepares to bring blocks up, in so many parts at the most. Opened is called in order, and must not wait.
func NewRise(to LayeredBlocks, stores []Store, all []Ascent, parts int, opened func(came int)) *Rise {
	layers := (to.Layers() + parts - 1) / parts
	parts = (to.Layers() + layers - 1) / layers
	r := &Rise{to: to, stores: stores, all: all, parts: parts, layers: layers, opened: opened, readers: make([]Reading, len(all)),
		lacks: make([]int, parts), ready: make([]cuda.Event, parts), lead: len(all), news: make(chan struct{})}
	for i, a := range all {
		r.readers[i] = Reading{Slot: a.Slot, Hash: a.Hash, Bytes: to.BlockBytes()}
	}
	for p := range r.lacks {
		r.lacks[p] = len(all)
	}
	return r
}

// Parts is in how many parts the blocks come.
func (r *Rise) Parts() int { return r.parts }

// Moves are how the ways of the blocks ended, once Run has returned.
func (r *Rise) Moves() []Ascent { return r.all }

// PartBytes is the size of each part of a block but the last.
func (r *Rise) PartBytes() int { return r.to.BlockBytes() / r.to.Layers() * r.layers }

// Err is why the first block in order does not come that does not; nil as long as all may.
func (r *Rise) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Run brings up what the stores have, and returns when nothing of that is copied any more: how long each store took. Of each block it notes how its
// move ended.
func (r *Rise) Run(ctx context.Context) (took []time.Duration) {
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
			r.bring(ctx, store, mine)
			took[s] = time.Since(began)
		})
	}
	workers.Wait()
	return took
}

// bring has as many workers as a store can use bring its blocks up. Each has blocks of its own.
func (r *Rise) bring(ctx context.Context, store Store, mine []int) {
	n := min(store.Depth(), len(mine))
	var workers sync.WaitGroup
	for w := range n {
		workers.Go(func() {
			for part := range r.parts {
				for at := w; at < len(mine); at += n {
					if i := mine[at]; r.Comes(i) {
						r.lift(ctx, store, i, part)
					}
				}
			}
		})
	}
	workers.Wait()
}

// Comes reports whether a block is still worth copying.
func (r *Rise) Comes(i int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return i < r.lead
}

// lift copies one part of one block.
func (r *Rise) lift(ctx context.Context, store Store, i, part int) {
	from, to := part*r.PartBytes(), min((part+1)*r.PartBytes(), r.to.BlockBytes())
	r.bringPart(i, func(m *Move) error {
		return store.ViewRange(ctx, &r.readers[i], from, to, func(b []byte) error {
			return r.to.WritePart(ctx, m.Block, from, b, func() { r.queued(part) })
		})
	})
}

// Take is given a part of a block from elsewhere, each once, in any order and those of one block one after the other. It was checked.
func (r *Rise) Take(ctx context.Context, i, part int, b []byte) error {
	return r.bringPart(i, func(m *Move) error {
		return r.to.WritePart(ctx, m.Block, part*r.PartBytes(), b, func() { r.queued(part) })
	})
}

// bringPart notes how a part of a block came.
func (r *Rise) bringPart(i int, bring func(m *Move) error) error {
	a, began := &r.all[i], time.Now()
	a.Err = bring(&a.Move)
	a.Took += time.Since(began)
	if a.Err != nil {
		r.Fail(i, a.Err)
		return a.Err
	}
	a.parts++
	a.Came = a.parts == r.parts
	return nil
}

// queued counts a block whose part is on its way. With the last one the part is open: its event comes after the copies of all.
func (r *Rise) queued(part int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lacks[part]--; r.lacks[part] > 0 {
		return
	}
	event, err := r.to.Mark()
	if err != nil {
		r.failed(0, err)
		return
	}
	r.ready[part] = event
	for r.came < r.parts && r.ready[r.came] != nil {
		r.came++
		r.opened(r.came)
	}
	r.tell()
}

// Fail says that a block does not come, and why.
func (r *Rise) Fail(i int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed(i, err)
}

// failed gives blocks from i on up. The lock is held.
func (r *Rise) failed(i int, err error) {
	if i < r.lead {
		r.lead, r.err = i, err
		r.tell()
	}
}

func (r *Rise) tell() {
	close(r.news)
	r.news = make(chan struct{})
}

// Pass implements engine.Gate.
func (r *Rise) Pass(ctx context.Context, layer int) (ready cuda.Event, next int, err error) {
	part := layer / r.layers
	for {
		r.mu.Lock()
		ready, err, news := r.ready[part], r.err, r.news
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
