package kvstore

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"troupe/core/kv"
)

// Blocks are a device's KV blocks, which may be copied concurrently; see engine.Blocks.
type Blocks interface {
	BlockBytes() int
	Read(ctx context.Context, block int32, into []byte) error
	Write(ctx context.Context, block int32, from []byte) error
}

// Move is a copy of one block between a device or another store and a slot.
type Move struct {
	Block, Slot int32   // Block on the device or slot of the other store; Slot of this store
	Hash        kv.Hash // key of the block in the store

	Done bool
	Took time.Duration // if it is done
	Err  error         // why it failed; nil also if the move was not started
}

// Report receives the result of each move of a block between two tiers. It is called concurrently.
// A move that was not started is neither done nor failed.
type Report func(from, to string, bytes int, m Move)

// Offload copies blocks into slots, up to the store's Depth concurrently: while one is checksummed
// or written, the device copies the next. After a failure it starts no more moves and returns the
// first error in order.
func Offload(ctx context.Context, from Blocks, to Store, all []Move) error {
	return each(to.Depth(), nil, all, func(m *Move) error {
		return to.Fill(
			ctx,
			m.Slot,
			m.Hash,
			from.BlockBytes(),
			func(block []byte) error { return from.Read(ctx, m.Block, block) },
		)
	})
}

// Restore copies slots into blocks. While one is copied to the device, the next ones are read and
// verified. It handles failures like Offload.
func Restore(ctx context.Context, from Store, to Blocks, all []Move) error {
	return each(from.Depth(), nil, all, func(m *Move) error {
		return from.View(
			ctx,
			m.Slot,
			m.Hash,
			to.BlockBytes(),
			func(block []byte) error { return to.Write(ctx, m.Block, block) },
		)
	})
}

// CopySlots copies slots of one store, the moves' Blocks, into slots of another. All blocks have
// the given size. A damaged block does not stop the others.
func CopySlots(ctx context.Context, from, to Store, bytes int, all []Move) error {
	return each(to.Depth(), ErrDamaged, all, func(m *Move) error {
		return to.Fill(
			ctx,
			m.Slot,
			m.Hash,
			bytes,
			func(block []byte) error { return from.Read(ctx, m.Block, m.Hash, block) },
		)
	})
}

// each starts the moves in order. After an error it starts no more moves. It returns when all
// started moves have ended. Errors that match ignored, if not nil, are only recorded in their moves
// and stop nothing.
func each(depth int, ignored error, all []Move, move func(*Move) error) error {
	var next atomic.Int64
	var failed atomic.Bool
	var workers sync.WaitGroup
	stops := func(err error) bool { return err != nil && (ignored == nil || !errors.Is(err, ignored)) }
	for range min(depth, len(all)) {
		workers.Go(func() {
			for !failed.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				m, began := &all[i], time.Now()
				if m.Err = move(m); m.Err == nil {
					m.Done, m.Took = true, time.Since(began)
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
