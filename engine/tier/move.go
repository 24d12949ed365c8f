package tier

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"troupe/core/kv"
)

// Blocks are a device's KV blocks, which several goroutines may copy at once; see engine.Blocks.
type Blocks interface {
	BlockBytes() int
	Read(ctx context.Context, block int32, into []byte) error
	Write(ctx context.Context, block int32, from []byte) error
}

// Move is the way of one block between a device, or the slot of another store, and a slot.
type Move struct {
	Block, Slot int32   // of the device or the other store; of the store
	Hash        kv.Hash // as the store knows it

	Came bool
	Took time.Duration // if it came
	Err  error         // why it did not; nil also where it was not begun
}

// Report is told how the way of a block of so many bytes from one tier to another ended, from goroutines. One that was not begun neither came nor failed.
type Report func(from, to string, bytes int, m Move)

// Down copies blocks into slots, as many at once as the store's Depth: while one is summed, or written to a disk, the device copies the next.
// Once one has failed no further ones are begun; the error is that of the first in order.
func Down(ctx context.Context, from Blocks, to Store, all []Move) error {
	return each(to.Depth(), nil, all, func(m *Move) error {
		return to.Fill(ctx, m.Slot, m.Hash, from.BlockBytes(), func(block []byte) error { return from.Read(ctx, m.Block, block) })
	})
}

// Up copies slots into blocks likewise: while one is copied to the device, the next ones are read and checked.
func Up(ctx context.Context, from Store, to Blocks, all []Move) error {
	return each(from.Depth(), nil, all, func(m *Move) error {
		return from.View(ctx, m.Slot, m.Hash, to.BlockBytes(), func(block []byte) error { return to.Write(ctx, m.Block, block) })
	})
}

// Across copies slots of one store, the moves' Blocks, into those of another likewise. All have blocks of that many bytes. One that is damaged stops
// no others.
func Across(ctx context.Context, from, to Store, bytes int, all []Move) error {
	return each(to.Depth(), ErrDamaged, all, func(m *Move) error {
		return to.Fill(ctx, m.Slot, m.Hash, bytes, func(block []byte) error { return from.Read(ctx, m.Block, m.Hash, block) })
	})
}

// each begins the moves in order, and returns when all that were begun have ended. An error of that kind, if any, stops
// no others, and is said by its move alone.
func each(depth int, passes error, all []Move, move func(*Move) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	stops := func(err error) bool { return err != nil && (passes == nil || !errors.Is(err, passes)) }
	for range min(depth, len(all)) {
		workers.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				m, began := &all[i], time.Now()
				if m.Err = move(m); m.Err == nil {
					m.Came, m.Took = true, time.Since(began)
				} else if stops(m.Err) {
					failed.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for _, m := range all {
		if stops(m.Err) {
			return m.Err
		}
	}
	return nil
}
