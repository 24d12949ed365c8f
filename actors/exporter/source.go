package exporter

import (
	"context"
	"fmt"

	"troupe/core/kv"
	"troupe/engine/kvstore"
)

// StoreSource is a Source that reads the slots of a tier below HBM.
type StoreSource struct{ Store kvstore.Store }

// Open implements Source. The blocks are slots.
func (s StoreSource) Open(slots []int32, hashes []kv.Hash, chunks kvstore.Chunks) Reader {
	r := &storeReader{store: s.Store, chunks: chunks}
	for i, slot := range slots {
		r.blocks = append(r.blocks, kvstore.Reading{Slot: slot, Hash: hashes[i], Bytes: chunks.BlockBytes})
	}
	return r
}

type storeReader struct {
	store  kvstore.Store
	chunks kvstore.Chunks
	blocks []kvstore.Reading
}

// InPlace implements Viewer.
func (r *storeReader) InPlace() bool {
	m, ok := r.store.(interface{ InMemory() bool })
	return ok && m.InMemory()
}

// View implements Viewer.
func (r *storeReader) View(ctx context.Context, index uint32, use func(parts ...[]byte) error) error {
	i, part := r.chunks.BlockPart(index)
	lo, hi := r.chunks.PieceRange(part)
	return kvstore.ViewSealed(ctx, r.store, &r.blocks[i], lo, hi,
		func(pieces, seal []byte) error { return use(pieces, seal) })
}

// Read implements Reader.
func (r *storeReader) Read(ctx context.Context, index uint32, into []byte) (n int, err error) {
	err = r.View(ctx, index, func(parts ...[]byte) error {
		size := 0
		for _, p := range parts {
			size += len(p)
			n += copy(into[n:], p)
		}
		return fits(size, n)
	})
	return n, err
}

func fits(size, room int) error {
	if room < size {
		return fmt.Errorf("chunk of %d bytes does not fit the transfer", size)
	}
	return nil
}

// Memory is the KV memory of a lease.
type Memory interface {
	// ReadPart copies bytes [from, from+len(into)) of a block.
	ReadPart(ctx context.Context, block int32, from int, into []byte) error
}

// MemorySource is a Source that reads blocks in HBM.
type MemorySource struct{ Memory Memory }

// Open implements Source.
func (s MemorySource) Open(blocks []int32, hashes []kv.Hash, chunks kvstore.Chunks) Reader {
	return memoryReader{s.Memory, blocks, hashes, chunks}
}

type memoryReader struct {
	memory Memory
	blocks []int32
	hashes []kv.Hash
	chunks kvstore.Chunks
}

// Read implements Reader.
func (r memoryReader) Read(ctx context.Context, index uint32, into []byte) (int, error) {
	i, part := r.chunks.BlockPart(index)
	lo, hi := r.chunks.PieceRange(part)
	size := hi - lo + kvstore.SealBytes
	if err := fits(size, len(into)); err != nil {
		return 0, err
	}
	if err := r.memory.ReadPart(ctx, r.blocks[i], lo, into[:hi-lo]); err != nil {
		return 0, err
	}
	kvstore.Seal(r.hashes[i], r.chunks.BlockBytes, lo, into[:size])
	return size, nil
}
