package kvstore

import (
	"bytes"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"troupe/core/kv"
	"troupe/cuda/host"
)

// TestChunks: for any part size and either store, each chunk has the seal that its receiver
// computes, and the chunks together make the blocks. A chunk with a flipped bit, or one taken for
// another, has a wrong seal.
func TestChunks(t *testing.T) {
	const most = 300 * sector
	d, err := host.Open(host.Config{MemoryBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	memory, err := d.AllocHost(3 * most)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(3, 1, most)})
	defer f.Close()
	stores := []Store{NewArena(memory, most), f}
	rapid.Check(t, func(t *rapid.T) {
		blocks, bytesEach := rapid.IntRange(1, 3).Draw(t, "blocks"), rapid.IntRange(1, most).Draw(t, "bytes")
		c, err := NewChunks(blocks, uint64(bytesEach), uint64(rapid.IntRange(0, 3).Draw(t, "parts")*(bytesEach/7+1)))
		if err != nil {
			t.Fatal(err)
		}
		store := stores[rapid.IntRange(0, 1).Draw(t, "store")]
		want, got, from := make([][]byte, c.Blocks), make([][]byte, c.Blocks), make([]Reading, c.Blocks)
		for i := range want {
			want[i], got[i] = content(i, c.BlockBytes), make([]byte, c.BlockBytes)
			from[i] = Reading{Slot: store.Slabs().Slot(i, 0), Hash: testHash(i), Bytes: c.BlockBytes}
			if err := store.Write(t.Context(), from[i].Slot, testHash(i), want[i]); err != nil {
				t.Fatal(err)
			}
		}
		has := func(sealed []byte, h kv.Hash, part int) bool {
			s := c.SealHash(h, part)
			_, _ = s.Write(sealed[:len(sealed)-SealBytes])
			return bytes.Equal(s.Sum(nil), sealed[len(sealed)-SealBytes:])
		}
		order := c.SendOrder(c.Blocks)
		if len(order) != c.Count() {
			t.Fatalf("%d chunks of %d", len(order), c.Count())
		}
		for _, index := range order {
			i, part := c.BlockPart(index)
			lo, hi := c.PieceRange(part)
			var sealed []byte
			if err := ViewSealed(t.Context(), store, &from[i], lo, hi, func(b, seal []byte) error {
				sealed = append(bytes.Clone(b), seal...)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			again := bytes.Clone(sealed)
			if Seal(testHash(i), c.BlockBytes, lo, again); !bytes.Equal(sealed, again) ||
				!has(sealed, testHash(i), part) ||
				len(sealed) > c.Bytes() {
				t.Fatalf("chunk %d of %d bytes: wrong seal", index, len(sealed))
			}
			next := (part + 1) % c.Parts()
			first, _ := c.PieceRange(next) // one piece may cover several parts
			if has(sealed, testHash(i+1), part) || first != lo && has(sealed, testHash(i), next) {
				t.Fatalf("chunk %d passes as another", index)
			}
			again[rapid.IntRange(0, len(again)-1).Draw(t, "flips")] ^= 1
			if has(again, testHash(i), part) || c.Trim(part, sealed[1:]) != nil {
				t.Fatalf("chunk %d passes despite damage", index)
			}
			at, _ := c.PartRange(part)
			copy(got[i][at:], c.Trim(part, sealed))
		}
		for i := range want {
			if !bytes.Equal(got[i], want[i]) {
				t.Fatalf("block %d differs from the one sent", i)
			}
		}
	})
}

// TestRejectsChunkSizes: requests with unreasonable sizes are rejected.
func TestRejectsChunkSizes(t *testing.T) {
	for _, bad := range [][2]uint64{{0, 0}, {1 << 20, 1}, {1 << 40, 0}, {1024, 1}} {
		if c, err := NewChunks(1, bad[0], bad[1]); err == nil {
			t.Errorf("%+v", c)
		}
	}
	for _, good := range [][2]uint64{{1, 0}, {1, 1 << 60}, {1023, 1}, {1280 << 10, 280 << 10}} {
		if _, err := NewChunks(1, good[0], good[1]); err != nil {
			t.Error(err)
		}
	}
}
