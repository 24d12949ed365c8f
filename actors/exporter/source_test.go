package exporter_test

import (
	"bytes"
	"context"
	"testing"

	"troupe/actors/exporter"
	"troupe/core/kv"
	"troupe/engine/kvstore"
)

// hostMemory is memory of the heap.
type hostMemory []byte

func (m hostMemory) Bytes() []byte { return m }
func (m hostMemory) Free() error   { return nil }

// hbm has one block.
type hbm []byte

func (m hbm) ReadPart(_ context.Context, _ int32, from int, into []byte) error {
	copy(into, m[from:])
	return nil
}

// TestReadFitsItsBuffer checks that the readers of all sources give the same sealed chunks of a block, and an
// error instead of a part of one if it does not fit the chunks of the transfer.
func TestReadFitsItsBuffer(t *testing.T) {
	block, hash := bytes.Repeat([]byte("a block "), 512), kv.Hash{1}
	arena := kvstore.NewArena(hostMemory(make([]byte, 2*len(block))), len(block))
	if err := arena.Write(t.Context(), 0, hash, block); err != nil {
		t.Fatal(err)
	}
	chunks, err := kvstore.NewChunks(1, uint64(len(block)), uint64(len(block)/2))
	if err != nil {
		t.Fatal(err)
	}
	slots, hashes := []int32{0}, []kv.Hash{hash}
	fromStore := exporter.StoreSource{Store: arena}.Open(slots, hashes, chunks)
	fromMemory := exporter.MemorySource{Memory: hbm(block)}.Open(slots, hashes, chunks)
	for index := range uint32(chunks.Count()) {
		_, part := chunks.BlockPart(index)
		lo, hi := chunks.PieceRange(part)
		size := hi - lo + kvstore.SealBytes
		var got [2][]byte
		for i, r := range []exporter.Reader{fromStore, fromMemory} {
			got[i] = make([]byte, chunks.Bytes())
			n, err := r.Read(t.Context(), index, got[i])
			if err != nil || n != size || !bytes.Equal(got[i][:hi-lo], block[lo:hi]) {
				t.Errorf("%T: chunk %d: %d bytes, %v, want bytes %d to %d and a seal", r, index, n, err, lo, hi)
			}
			if n, err := r.Read(t.Context(), index, make([]byte, size-1)); err == nil {
				t.Errorf("%T: chunk %d of %d bytes was read into %d: %d", r, index, size, size-1, n)
			}
		}
		if !bytes.Equal(got[0], got[1]) {
			t.Errorf("chunk %d differs between a tier and HBM", index)
		}
	}
}
