package kvstore

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"troupe/core/kv"
	"troupe/cuda/host"
)

const testBytes = 5000 // size of a block, not a multiple of a sector

func testHash(n int) kv.Hash { return kv.Root("test", string(rune(n)), nil) }

// content returns the content of block n.
func content(n, size int) []byte {
	b := make([]byte, size)
	r := rand.NewChaCha8([32]byte{byte(n), byte(n >> 8), byte(n >> 16)})
	_, _ = r.Read(b)
	return b
}

func open(t testing.TB, cfg FileConfig) (*File, []Held) {
	t.Helper()
	f, err := OpenFile(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return f, f.Held()
}

// cut returns a layout of slabs, each with the given number of slots for blocks of a size.
func cut(slabs, slots, bytes int) kv.Slabs {
	return kv.Slabs{Count: slabs, Bytes: sector + slots*(sector+sectors(bytes))}
}

func stores(t *testing.T) map[string]Store {
	d, err := host.Open(host.Config{MemoryBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	memory, err := d.AllocHost(2*5*sector + 10)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := open(
		t,
		FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slabs: kv.Slabs{Count: 2, Bytes: 7 * sector}},
	)
	return map[string]Store{"arena": NewArena(memory, 5*sector), "file": f}
}

// TestStoreReadsBack: a block is read back, under its own hash and size only, until it is
// overwritten or erased, or its slab changes to another block size. There are two slabs, each for
// two blocks of one size or one of the other.
func TestStoreReadsBack(t *testing.T) {
	const large = 3 * sector
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, c := t.Context(), s.Slabs()
			if c.Count != 2 || c.Fit(testBytes) != 2 || c.Fit(large) != 1 || s.SlotBytes() < large ||
				s.SlotBytes() > 5*sector {
				t.Fatalf("%+v, blocks of up to %d bytes", c, s.SlotBytes())
			}
			slot := []int32{c.Slot(0, 0), c.Slot(0, 1), c.Slot(1, 0), c.Slot(1, 1)}
			got := make([]byte, testBytes)
			reads := func(n int, size int) error {
				t.Helper()
				got := make([]byte, size)
				err := s.Read(ctx, slot[n%4], testHash(n), got)
				if err == nil && !bytes.Equal(got, content(n, size)) {
					t.Errorf("block %d differs", n)
				}
				return err
			}
			for n := range slot {
				if err := reads(n, testBytes); !errors.Is(err, ErrDamaged) {
					t.Errorf("an empty slot: %v", err)
				}
				if err := s.Write(ctx, slot[n], testHash(n), content(n, testBytes)); err != nil {
					t.Fatal(err)
				}
			}
			for n := range slot {
				if err := reads(n, testBytes); err != nil {
					t.Errorf("slot %d: %v", n, err)
				}
				for what, err := range map[string]error{
					"another hash": s.Read(ctx, slot[n], testHash(9), got),
					"another size": s.Read(ctx, slot[n], testHash(n), got[:testBytes-1]),
				} {
					if !errors.Is(err, ErrDamaged) {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			if err := errors.Join(
				s.Erase(ctx, slot[1:2]), s.Write(ctx, slot[2], testHash(6), content(6, testBytes))); err != nil {
				t.Fatal(err)
			}
			held := s.Held()
			want := []Held{
				{slot[0], testHash(0), testBytes}, {slot[3], testHash(3), testBytes}, {slot[2], testHash(6), testBytes},
			}
			if !slices.Equal(held, want) {
				t.Errorf("held %v, want %v", held, want)
			}
			for n, want := range map[int]error{0: nil, 1: ErrDamaged, 2: ErrDamaged, 3: nil, 6: nil} {
				if err := reads(n, testBytes); !errors.Is(err, want) {
					t.Errorf("block %d after one was erased and one overwritten: %v", n, err)
				}
			}
			if err := s.Write(ctx, slot[0], testHash(8), content(8, large)); err != nil {
				t.Fatal(err)
			}
			if held := s.Held(); len(held) != 3 || held[2] != (Held{slot[0], testHash(8), large}) {
				t.Errorf("held %v after a slab changed to large blocks", held)
			}
			if err := reads(0, testBytes); !errors.Is(err, ErrDamaged) {
				t.Errorf("a block that was in the slab: %v", err)
			}
			if err := reads(8, large); err != nil {
				t.Error(err)
			}
			if err := s.Erase(ctx, slot); err != nil || len(s.Held()) != 0 {
				t.Errorf("%v; held %v after all was erased", err, s.Held())
			}
			for what, err := range map[string]error{
				"slot -1":     s.Write(ctx, -1, testHash(1), got),
				"slot 2 of 2": s.Read(ctx, c.Slot(0, 2), testHash(1), got),
				"slab 2 of 2": s.Write(ctx, c.Slot(2, 0), testHash(1), got),
				"too large":   s.Write(ctx, 0, testHash(1), make([]byte, s.SlotBytes()+1)),
			} {
				if err == nil {
					t.Errorf("%s was accepted", what)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestArenaIsChecked: a flipped bit in memory is detected.
func TestArenaIsChecked(t *testing.T) {
	a := stores(t)["arena"].(*Arena)
	if err := a.Write(t.Context(), 1, testHash(3), content(3, testBytes)); err != nil {
		t.Fatal(err)
	}
	a.memory.Bytes()[2*sector+1234] ^= 16
	if err := a.Read(t.Context(), 1, testHash(3), make([]byte, testBytes)); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

// TestTooLargeTierFillsNoDisk checks that a tier that cannot fit is refused before the file system
// looks for space.
func TestTooLargeTierFillsNoDisk(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "kv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := hasSpace(f, 1<<60); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("1 EiB: %v", err)
	}
	if err := hasSpace(f, 4096); err != nil {
		t.Errorf("4 KiB: %v", err)
	}
}
