package tier

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"troupe/core/kv"
	"troupe/cuda"
)

// Arena stores blocks in host memory. Its content ends with the process.
type Arena struct {
	table
	memory cuda.HostMemory
}

var _ Store = (*Arena)(nil)

// NewArena returns an empty arena of as many slabs as the memory holds. It frees the memory on Close.
func NewArena(memory cuda.HostMemory, slabBytes int) *Arena {
	cut := kv.Slabs{Count: len(memory.Bytes()) / slabBytes, Bytes: slabBytes}
	return &Arena{table: table{cut: cut, slabs: make([]slab, cut.Count)}, memory: memory}
}

// Write copies a block in.
func (a *Arena) Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return a.put(ctx, slot, h, len(block), func(into []byte) ([]uint64, error) { return copyPieces(into, block, h), nil })
}

// Read copies a block out.
func (a *Arena) Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	return a.hold(ctx, slot, h, len(block), func(held []byte, l *label) error {
		if !slices.Equal(copyPieces(block, held, h), l.sums) {
			return fmt.Errorf("slot %d of the arena, checksum: %w", slot, ErrDamaged)
		}
		return nil
	})
}

// InMemory reports that what View shows stays where it is while that runs: it may be sent from there.
func (a *Arena) InMemory() bool { return true }

// Depth implements Store: a GPU copies as fast as some cores sum.
func (a *Arena) Depth() int { return 4 }

// Fill implements Store, without a copy beside that of from.
func (a *Arena) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	return a.put(ctx, slot, h, bytes, func(into []byte) ([]uint64, error) {
		err := from(into)
		if err != nil {
			return nil, err
		}
		return sumPieces(h, into), nil
	})
}

// put has a slot filled, by who returns the sums of what it has put there.
func (a *Arena) put(ctx context.Context, slot int32, h kv.Hash, bytes int, fill func(into []byte) ([]uint64, error)) error {
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

// hold has a slot used for as long as it holds a block.
func (a *Arena) hold(ctx context.Context, slot int32, h kv.Hash, bytes int, use func(block []byte, l *label) error) error {
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

// View implements Store, without a copy. The slot can not be written to meanwhile.
func (a *Arena) View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func([]byte) error) error {
	return a.ViewRange(ctx, &Reading{Slot: slot, Hash: h, Bytes: bytes}, 0, bytes, use)
}

// ViewRange implements Store likewise.
func (a *Arena) ViewRange(ctx context.Context, r *Reading, from, to int, use func([]byte) error) error {
	if err := r.check(from, to); err != nil {
		return err
	}
	return a.hold(ctx, r.Slot, r.Hash, r.Bytes, func(block []byte, l *label) error {
		r.sums = l.sums
		lo, hi := r.cover(from, to)
		if err := r.intact(block[lo:hi], lo); err != nil {
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
