package tier

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"troupe/core/kv"
	"troupe/cuda"
)

// Arena stores blocks in host memory. Its content ends with the process.
type Arena struct {
	memory    cuda.HostMemory
	slotBytes int
	labels    []label
	sequence  atomic.Uint64 // of the last write
}

// label says what a slot holds. Its lock is for askers that outlived an earlier life of the slots' owner.
type label struct {
	mu sync.RWMutex
	header
}

var _ Store = (*Arena)(nil)

// NewArena returns an empty arena of as many slots as the memory holds. It frees the memory on Close.
func NewArena(memory cuda.HostMemory, slotBytes int) *Arena {
	return &Arena{memory: memory, slotBytes: slotBytes, labels: make([]label, len(memory.Bytes())/slotBytes)}
}

// Slots is how many blocks fit.
func (a *Arena) Slots() int { return len(a.labels) }

// SlotBytes is the size of the largest block.
func (a *Arena) SlotBytes() int { return a.slotBytes }

// Write copies a block in.
func (a *Arena) Write(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	if err := a.check(ctx, slot, len(block)); err != nil {
		return err
	}
	l := &a.labels[slot]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = header{a.sequence.Add(1), h, len(block), copyPieces(a.slot(slot), block, h)}
	return nil
}

// Read copies a block out.
func (a *Arena) Read(ctx context.Context, slot int32, h kv.Hash, block []byte) error {
	_, err := a.read(ctx, slot, h, block)
	return err
}

// Depth implements Store: a GPU copies as fast as some cores sum.
func (a *Arena) Depth() int { return 4 }

// Fill implements Store, without a copy beside that of from.
func (a *Arena) Fill(ctx context.Context, slot int32, h kv.Hash, bytes int, from func([]byte) error) error {
	if err := a.check(ctx, slot, bytes); err != nil {
		return err
	}
	l, block := &a.labels[slot], a.slot(slot)[:bytes]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = header{}
	if err := from(block); err != nil {
		return err
	}
	l.header = header{a.sequence.Add(1), h, bytes, sumPieces(h, block)}
	return nil
}

// View implements Store, without a copy. The slot can not be written to meanwhile.
func (a *Arena) View(ctx context.Context, slot int32, h kv.Hash, bytes int, use func([]byte) error) error {
	return a.ViewRange(ctx, &Reading{Slot: slot, Hash: h, Bytes: bytes}, 0, bytes, use)
}

// ViewRange implements Store likewise.
func (a *Arena) ViewRange(ctx context.Context, r *Reading, from, to int, use func([]byte) error) error {
	if err := errors.Join(a.check(ctx, r.Slot, r.Bytes), r.check(from, to)); err != nil {
		return err
	}
	l, block := &a.labels[r.Slot], a.slot(r.Slot)
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.hash != r.Hash || l.length != r.Bytes {
		return fmt.Errorf("slot %d of the arena: %w", r.Slot, ErrDamaged)
	}
	r.sums = l.sums
	lo, hi := r.cover(from, to)
	if err := r.intact(block[lo:hi], lo); err != nil {
		return fmt.Errorf("slot %d of the arena: %w", r.Slot, err)
	}
	return use(block[from:to:to])
}

// ReadSealed implements Store, with no second look at the bytes.
func (a *Arena) ReadSealed(ctx context.Context, slot int32, h kv.Hash, sealed []byte) error {
	end := len(sealed) - SealBytes
	sum, err := a.read(ctx, slot, h, sealed[:end])
	if err == nil {
		binary.BigEndian.PutUint64(sealed[end:], sum)
	}
	return err
}

// read returns the checksum of what it has copied.
func (a *Arena) read(ctx context.Context, slot int32, h kv.Hash, block []byte) (uint64, error) {
	if err := a.check(ctx, slot, len(block)); err != nil {
		return 0, err
	}
	l := &a.labels[slot]
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.hash != h || l.length != len(block) {
		return 0, fmt.Errorf("slot %d of the arena: %w", slot, ErrDamaged)
	}
	if !slices.Equal(copyPieces(block, a.slot(slot)[:len(block)], h), l.sums) {
		return 0, fmt.Errorf("slot %d of the arena, checksum: %w", slot, ErrDamaged)
	}
	return sum(h, l.sums), nil
}

// Erase forgets what a slot holds.
func (a *Arena) Erase(ctx context.Context, slot int32) error {
	if err := a.check(ctx, slot, 0); err != nil {
		return err
	}
	l := &a.labels[slot]
	l.mu.Lock()
	defer l.mu.Unlock()
	l.header = header{}
	return nil
}

// Held is what the slots hold.
func (a *Arena) Held() []Held {
	heads := make([]header, len(a.labels))
	for i := range a.labels {
		l := &a.labels[i]
		l.mu.RLock()
		heads[i] = l.header
		l.mu.RUnlock()
	}
	return heldBy(heads)
}

// Close frees the memory.
func (a *Arena) Close() error { return a.memory.Free() }

func (a *Arena) check(ctx context.Context, slot int32, bytes int) error {
	if slot < 0 || int(slot) >= len(a.labels) || bytes > a.slotBytes {
		return fmt.Errorf("slot %d of %d, %d bytes of %d: not in the arena", slot, len(a.labels), bytes, a.slotBytes)
	}
	return ctx.Err()
}

func (a *Arena) slot(i int32) []byte {
	at := int(i) * a.slotBytes
	return a.memory.Bytes()[at : at+a.slotBytes]
}
