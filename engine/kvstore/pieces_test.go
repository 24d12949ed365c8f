package kvstore

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"troupe/cuda/host"
)

// TestPieces: for any block length, the sums fit into the header's sector and are a small fraction
// of the block.
func TestPieces(t *testing.T) {
	for _, length := range []int{1, sector, sector + 1, maxPieces * sector, maxPieces*sector + 1, 10 << 20, 1 << 30} {
		size, n := pieceBytes(length), pieces(length)
		if n < 1 || n > maxPieces || (n-1)*size >= length || n*size < length || size%sector != 0 {
			t.Errorf("%d bytes: %d pieces of %d", length, n, size)
		}
		if length > maxPieces*sector && n <= maxPieces/2 {
			t.Errorf("%d bytes: only %d pieces", length, n)
		}
	}
	b := make([]byte, sector)
	want := header{7, testHash(1), maxPieces * sector, sumPieces(testHash(1), content(1, maxPieces*sector))}
	want.put(b)
	if got, ok := parseHeader(b); !ok || got.sequence != 7 || got.hash != want.hash ||
		!slices.Equal(got.sums, want.sums) {
		t.Errorf("the longest header is read as %v, %v", got, ok)
	}
}

// TestRanges: any range of a block is read back in any order, also next to damaged pieces, but
// never with damage.
func TestRanges(t *testing.T) {
	const length = 5*sector + 100
	d, err := host.Open(host.Config{MemoryBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	memory, err := d.AllocHost(2 * 6 * sector)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := open(
		t,
		FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 2, length), AllocHost: d.AllocHost},
	)
	defer f.Close()
	for name, c := range map[string]struct {
		store Store
		flip  func(at int)
	}{
		"arena": {NewArena(memory, 12*sector), func(at int) { memory.Bytes()[6*sector+at] ^= 4 }},
		"file": {f, func(at int) {
			b := aligned(sector)
			sectorAt := f.at(1, length) + int64(sector+at/sector*sector)
			if _, err := f.disk.ReadAt(b, sectorAt); err != nil {
				t.Fatal(err)
			}
			b[at%sector] ^= 4
			if _, err := f.disk.WriteAt(b, sectorAt); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.store.Write(t.Context(), 1, testHash(1), content(1, length)); err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				hurt := -1
				if rapid.Bool().Draw(t, "damaged") {
					hurt = rapid.IntRange(0, length-1).Draw(t, "damage")
					c.flip(hurt)
					defer c.flip(hurt)
				}
				r := &Reading{Slot: 1, Hash: testHash(1), Bytes: length}
				for range rapid.IntRange(1, 4).Draw(t, "ranges") {
					from := rapid.IntRange(0, length-1).Draw(t, "from")
					to := rapid.IntRange(from+1, length).Draw(t, "to")
					var got []byte
					err := c.store.ViewRange(
						t.Context(),
						r,
						from,
						to,
						func(part []byte) error { got = bytes.Clone(part); return nil },
					)
					damaged := hurt >= from/sector*sector && hurt < (to+sector-1)/sector*sector
					if damaged && (!errors.Is(err, ErrDamaged) || got != nil) {
						t.Fatalf("[%d, %d) with damage at %d: %v", from, to, hurt, err)
					}
					if !damaged && (err != nil || !bytes.Equal(got, content(1, length)[from:to])) {
						t.Fatalf("[%d, %d), damage at %d: %v", from, to, hurt, err)
					}
				}
			})
			for _, bad := range [][2]int{{-1, 4}, {5, 5}, {9, 8}, {0, length + 1}} {
				r := &Reading{Slot: 1, Hash: testHash(1), Bytes: length}
				ignore := func([]byte) error { return nil }
				if err := c.store.ViewRange(t.Context(), r, bad[0], bad[1], ignore); err == nil {
					t.Errorf("range %v was read", bad)
				}
			}
			other := &Reading{Slot: 1, Hash: testHash(2), Bytes: length}
			err := c.store.ViewRange(t.Context(), other, sector, 2*sector, func([]byte) error { return nil })
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("a range of another block: %v", err)
			}
		})
	}
}

// TestOlderFileIsEmptied: a file without slabs is reused without its blocks.
func TestOlderFileIsEmptied(t *testing.T) {
	cfg := FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: cut(1, 2, testBytes)}
	f, _ := open(t, cfg)
	if f.Emptied() {
		t.Error("a new file was emptied")
	}
	name := aligned(sector)
	copy(name, oldMagics[1])
	if _, err := f.disk.WriteAt(name, 0); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Write(t.Context(), 1, testHash(1), content(1, testBytes)), f.Close()); err != nil {
		t.Fatal(err)
	}
	f, held := open(t, cfg)
	if !f.Emptied() || len(held) != 0 {
		t.Errorf("emptied %v, held %v", f.Emptied(), held)
	}
	if err := errors.Join(f.Write(t.Context(), 1, testHash(1), content(1, testBytes)), f.Close()); err != nil {
		t.Fatal(err)
	}
	f, held = open(t, cfg)
	defer f.Close()
	if f.Emptied() || len(held) != 1 {
		t.Errorf("afterwards: emptied %v, held %v", f.Emptied(), held)
	}
}
