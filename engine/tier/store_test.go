package tier

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"troupe/core/kv"
	"troupe/cuda/host"
)

const testBytes = 5000 // of a block: not a multiple of a sector

func testHash(n int) kv.Hash { return kv.Root("test", string(rune(n))) }

// content is what block n holds.
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

func stores(t *testing.T) map[string]Store {
	d, err := host.Open(host.Config{MemoryBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	memory, err := d.AllocHost(4*testBytes + 10)
	if err != nil {
		t.Fatal(err)
	}
	f, _ := open(t, FileConfig{Path: filepath.Join(t.TempDir(), "tier"), Slots: 4, SlotBytes: testBytes})
	return map[string]Store{"arena": NewArena(memory, testBytes), "file": f}
}

// TestStores: what is written is read again, until it is overwritten or erased; under its own hash and size only.
func TestStores(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if s.Slots() != 4 || s.SlotBytes() != testBytes {
				t.Fatalf("%d slots of %d bytes", s.Slots(), s.SlotBytes())
			}
			got := make([]byte, testBytes)
			defer func() { // what is left in the end
				want := []Held{{0, testHash(0), testBytes}, {3, testHash(3), testBytes - 3}, {2, testHash(7), 10}}
				if held := s.Held(); !slices.Equal(held, want) {
					t.Errorf("held %v, not %v", held, want)
				}
			}()
			for slot := range int32(4) {
				if err := s.Read(ctx, slot, testHash(1), got); !errors.Is(err, ErrDamaged) {
					t.Errorf("an empty slot: %v", err)
				}
				size := testBytes - int(slot)
				if err := s.Write(ctx, slot, testHash(int(slot)), content(int(slot), size)); err != nil {
					t.Fatal(err)
				}
			}
			for slot := range int32(4) {
				size := testBytes - int(slot)
				if err := s.Read(ctx, slot, testHash(int(slot)), got[:size]); err != nil || !bytes.Equal(got[:size], content(int(slot), size)) {
					t.Errorf("slot %d: %v", slot, err)
				}
				for what, err := range map[string]error{
					"another hash": s.Read(ctx, slot, testHash(9), got[:size]), "another size": s.Read(ctx, slot, testHash(int(slot)), got[:size-1]),
				} {
					if !errors.Is(err, ErrDamaged) {
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			if err := errors.Join(s.Erase(ctx, 1), s.Write(ctx, 2, testHash(7), content(7, 10))); err != nil {
				t.Fatal(err)
			}
			if err := s.Read(ctx, 1, testHash(1), got[:testBytes-1]); !errors.Is(err, ErrDamaged) {
				t.Errorf("erased: %v", err)
			}
			if err := s.Read(ctx, 2, testHash(2), got[:testBytes-2]); !errors.Is(err, ErrDamaged) {
				t.Errorf("overwritten: %v", err)
			}
			if err := s.Read(ctx, 2, testHash(7), got[:10]); err != nil || !bytes.Equal(got[:10], content(7, 10)) {
				t.Errorf("shorter: %v", err)
			}
			for what, err := range map[string]error{
				"slot -1": s.Write(ctx, -1, testHash(1), got), "slot 4": s.Read(ctx, 4, testHash(1), got), "too large": s.Write(ctx, 0, testHash(1), make([]byte, testBytes+1)),
			} {
				if err == nil {
					t.Errorf("%s is taken", what)
				}
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestArenaIsChecked: a bit that flips in memory is seen.
func TestArenaIsChecked(t *testing.T) {
	a := stores(t)["arena"].(*Arena)
	if err := a.Write(t.Context(), 3, testHash(3), content(3, testBytes)); err != nil {
		t.Fatal(err)
	}
	a.memory.Bytes()[3*testBytes+1234] ^= 16
	if err := a.Read(t.Context(), 3, testHash(3), make([]byte, testBytes)); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}
