package kvstore

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"troupe/core/kv"
)

// table records what the slots of a store hold, slab by slab.
type table struct {
	cut      kv.Slabs
	slabs    []slab
	sequence atomic.Uint64 // sequence of the last write
}

// slab is a row of slots for blocks of one size. The size cannot change while its lock is held for
// reading.
type slab struct {
	mu    sync.RWMutex
	bytes int // size of a block; 0 means none yet
	slots []label
}

// label records what a slot holds. Its lock protects against readers that outlived the slots'
// previous owner.
type label struct {
	mu sync.RWMutex
	header
}

// header identifies the block in a slot.
type header struct {
	sequence uint64 // sequence of the write; the latest wins
	hash     kv.Hash
	length   int      // length of the block; 0 means an empty slot
	sums     []uint64 // checksums of the pieces
}

// Slabs implements Store.
func (t *table) Slabs() kv.Slabs { return t.cut }

// SlotBytes implements Store.
func (t *table) SlotBytes() int { return t.cut.Largest() }

func (t *table) check(slot int32, bytes int) error {
	if !t.cut.Has(slot, bytes) {
		return fmt.Errorf("slot %d for a block of %d bytes is out of range: %d slabs of %d bytes",
			slot, bytes, t.cut.Count, t.cut.Bytes)
	}
	return nil
}

// find locks a slot's slab for reading. It returns false, without the lock, if the slab is for
// another block size.
func (t *table) find(slot int32, bytes int) (*slab, *label, bool) {
	i, nth := t.cut.Locate(slot)
	s := &t.slabs[i]
	s.mu.RLock()
	if s.bytes != bytes {
		s.mu.RUnlock()
		return nil, nil, false
	}
	return s, &s.slots[nth], true
}

func (s *slab) empty() bool {
	for i := range s.slots {
		if s.slots[i].length > 0 {
			return false
		}
	}
	return true
}

// claim is find for a writer: it changes a slab for another block size to this one, which drops the
// slab's blocks.
func (t *table) claim(slot int32, bytes int, turn func(slab, bytes int) error) (*slab, *label, error) {
	for {
		if s, l, ok := t.find(slot, bytes); ok {
			return s, l, nil
		}
		i, _ := t.cut.Locate(slot)
		if err := t.resize(i, bytes, turn); err != nil {
			return nil, nil, err
		}
	}
}

func (t *table) resize(i, bytes int, turn func(slab, bytes int) error) error {
	s := &t.slabs[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes == bytes {
		return nil
	}
	s.bytes, s.slots = 0, nil
	if err := turn(i, bytes); err != nil {
		return err
	}
	s.bytes, s.slots = bytes, make([]label, t.cut.Fit(bytes))
	return nil
}

// Held implements Store. If two slots hold one block, the later write wins.
func (t *table) Held() []Held {
	type found struct {
		Held
		sequence uint64
	}
	newest := make(map[kv.Hash]found)
	for i := range t.slabs {
		s := &t.slabs[i]
		s.mu.RLock()
		for nth := range s.slots {
			l := &s.slots[nth]
			l.mu.RLock()
			if l.length > 0 && l.sequence > newest[l.hash].sequence {
				newest[l.hash] = found{Held{t.cut.Slot(i, nth), l.hash, l.length}, l.sequence}
			}
			l.mu.RUnlock()
		}
		s.mu.RUnlock()
	}
	all := make([]found, 0, len(newest))
	for _, f := range newest {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b found) int { return cmp.Compare(a.sequence, b.sequence) })
	held := make([]Held, len(all))
	for i, f := range all {
		held[i] = f.Held
	}
	return held
}
