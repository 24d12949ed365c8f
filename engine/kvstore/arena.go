package kvstore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"troupe/core/kv"
	"troupe/cuda"
)

// Arena stores blocks in host memory. Its content is lost when the process ends.
type Arena struct {
	table
	memory cuda.HostMemory
}

var _ Store = (*Arena)(nil)

// NewArena returns an empty arena with as many slabs as fit into the memory. Close frees the
// memory.
func NewArena(memory cuda.HostMemory, slabBytes int) *Arena {
	cut := kv.Slabs{Count: len(memory.Bytes()) / slabBytes, Bytes: slabBytes}
	return &Arena{table: table{cut: cut, slabs: make([]slab, cut.Count)}, memory: memory}
}

// Write implements Store.
func (a *Arena) Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return a.fillSlot(
		ctx,
		slot,
		h,
		len(block),
		func(into []byte) ([]uint64, error) { return copyPieces(into, block, h), nil },
	)
}

// Read implements Store.
func (a *Arena) Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return a.withSlot(ctx, slot, h, len(block), func(held []byte, l *label) error {
		if !slices.Equal(copyPieces(block, held, h), l.sums) {
			return fmt.Errorf("slot %d of the arena: checksum: %w", slot, ErrDamaged)
		}
		return nil
	})
}

// InMemory reports that the bytes that View passes to use stay in place while use runs, so they may
// be sent from there.
func (a *Arena) InMemory() bool { return true }

// Depth implements Store. A GPU copies about as fast as a few cores compute checksums.
func (a *Arena) Depth() int { return 4 }

// Fill implements Store. It lets from write directly into the slot, so there is no extra copy.
func (a *Arena) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	return a.fillSlot(ctx, slot, h, bytes, func(into []byte) ([]uint64, error) {
		err := from(into)
		if err != nil {
			return nil, err
		}
		return sumPieces(h, into), nil
	})
}

// fillSlot lets fill write a block into a slot. fill returns the checksums of the block's pieces.
func (a *Arena) fillSlot(
	ctx context.Context,
	slot int32,
	h kv.Hash,
	bytes int,
	fill func(into []byte) ([]uint64, error),
) error {
	if err := errors.Join(a.check(slot, bytes), ctx.Err()); err != nil {
		return fmt.Errorf("arena: %w", err)
	}
	s, l, err := a.claim(slot, bytes, func(int, int) error { return nil })
	if err != nil {
		return err
	}
	defer s.mu.RUnlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = header{}
	sums, err := fill(a.block(slot, bytes))
	if err == nil {
		l.header = header{a.sequence.Add(1), h, bytes, sums}
	}
	return err
}

// withSlot calls use while the slot's lock is held, if the slot holds the block.
func (a *Arena) withSlot(
	ctx context.Context,
	slot int32,
	h kv.Hash,
	bytes int,
	use func(block []byte, l *label) error,
) error {
	if err := errors.Join(a.check(slot, bytes), ctx.Err()); err != nil {
		return fmt.Errorf("arena: %w", err)
	}
	s, l, ok := a.find(slot, bytes)
	if !ok {
		return fmt.Errorf("slot %d of the arena: %w", slot, ErrDamaged)
	}
	defer s.mu.RUnlock()
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.hash != h || l.length != bytes {
		return fmt.Errorf("slot %d of the arena: %w", slot, ErrDamaged)
	}
	return use(a.block(slot, bytes), l)
}

// View implements Store without a copy. The slot cannot be written meanwhile.
func (a *Arena) View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func([]byte) error) error {
	return a.ViewRange(ctx, &Reading{Slot: slot, Hash: h, Bytes: bytes}, 0, bytes, use)
}

// ViewRange implements Store without a copy. The slot cannot be written meanwhile.
func (a *Arena) ViewRange(ctx context.Context, r *Reading, from, to int, use func([]byte) error) error {
	if err := r.check(from, to); err != nil {
		return err
	}
	return a.withSlot(ctx, r.Slot, r.Hash, r.Bytes, func(block []byte, l *label) error {
		r.sums = l.sums
		lo, hi := r.wholePieces(from, to)
		if err := r.verify(block[lo:hi], lo); err != nil {
			return fmt.Errorf("slot %d of the arena: %w", r.Slot, err)
		}
		return use(block[from:to:to])
	})
}

// Erase implements Store.
func (a *Arena) Erase(ctx context.Context, slots []int32) error {
	for _, slot := range slots {
		i, nth := a.cut.Locate(slot)
		s := &a.slabs[i]
		s.mu.RLock()
		if nth < len(s.slots) {
			l := &s.slots[nth]
			l.mu.Lock()
			l.header = header{}
			l.mu.Unlock()
		}
		s.mu.RUnlock()
	}
	return ctx.Err()
}

// Close frees the memory.
func (a *Arena) Close() error { return a.memory.Free() }

func (a *Arena) block(slot int32, bytes int) []byte {
	at := int(a.cut.Offset(slot, bytes))
	return a.memory.Bytes()[at : at+bytes : at+bytes]
}
