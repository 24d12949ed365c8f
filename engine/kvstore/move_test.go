package kvstore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
)

// deviceBlocks are blocks in memory.
type deviceBlocks [][]byte

func (d deviceBlocks) BlockBytes() int { return testBytes }

func (d deviceBlocks) Read(_ context.Context, block int32, into []byte) error {
	if d[block] == nil {
		return errGone
	}
	copy(into, d[block])
	return nil
}

func (d deviceBlocks) Write(_ context.Context, block int32, from []byte) error {
	d[block] = bytes.Clone(from)
	return nil
}

var errGone = errors.New("the block is gone")

func fourMoves(s Store) []Move {
	all := make([]Move, 4)
	for i := range all {
		all[i] = Move{Block: int32(i), Slot: s.Slabs().Slot(1-i/2, 1-i%2), Hash: testHash(i)}
	}
	return all
}

// TestOffloadAndRestore: blocks are intact after an offload and a restore. A damaged block is not
// restored, and an unreadable one not offloaded.
func TestOffloadAndRestore(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			from := deviceBlocks{
				content(0, testBytes),
				content(1, testBytes),
				content(2, testBytes),
				content(3, testBytes),
			}
			if err := Offload(t.Context(), from, s, fourMoves(s)); err != nil {
				t.Fatal(err)
			}
			into, up := make(deviceBlocks, 4), fourMoves(s)
			if err := Restore(t.Context(), s, into, up); err != nil {
				t.Fatal(err)
			}
			for i, m := range up {
				if !m.Done || m.Took <= 0 || !bytes.Equal(into[i], from[i]) {
					t.Errorf("block %d has changed: %v", i, m)
				}
			}
			lost := deviceBlocks{from[3], nil, from[3], from[3]}
			down := fourMoves(s)
			if err := Offload(t.Context(), lost, s, down); !errors.Is(err, errGone) || down[1].Done ||
				!errors.Is(down[1].Err, errGone) {
				t.Errorf("an unreadable block: %v, %v", err, down[1])
			}
			if err := s.Write(t.Context(), up[0].Slot, testHash(9), from[0]); err != nil {
				t.Fatal(err)
			}
			clear(into)
			again := fourMoves(s)
			if err := Restore(t.Context(), s, into, again); !errors.Is(err, ErrDamaged) || again[0].Done ||
				into[0] != nil {
				t.Errorf("another block: %v, %v", err, again[0])
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestCopySlots: blocks are copied intact from one store to another, and a damaged one is not
// copied.
func TestCopySlots(t *testing.T) {
	all := stores(t)
	from, to := all["arena"], all["file"]
	moves := fourMoves(to)
	for i := range moves {
		moves[i].Block = from.Slabs().Slot(i/2, i%2)
		if err := from.Write(t.Context(), moves[i].Block, moves[i].Hash, content(i, testBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := CopySlots(t.Context(), from, to, testBytes, moves); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, testBytes)
	for i, m := range moves {
		if err := to.Read(t.Context(), m.Slot, testHash(i), got); err != nil || !m.Done ||
			!bytes.Equal(got, content(i, testBytes)) {
			t.Errorf("block %d: %v", i, err)
		}
	}
	from.(*Arena).memory.Bytes()[100] ^= 1
	if err := to.Erase(t.Context(), []int32{moves[0].Slot, moves[1].Slot, moves[2].Slot, moves[3].Slot}); err != nil {
		t.Fatal(err)
	}
	again := slices.Clone(moves)
	for i := range again {
		again[i].Done = false
	}
	if err := CopySlots(t.Context(), from, to, testBytes, again); err != nil || again[0].Done ||
		!errors.Is(again[0].Err, ErrDamaged) ||
		!again[3].Done ||
		len(to.Held()) != 3 {
		t.Errorf("a damaged block: %v, %+v", err, again)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := CopySlots(t.Context(), from, to, testBytes, again); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("to a closed store: %v", err)
	}
}
