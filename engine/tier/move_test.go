package tier

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
)

// deviceBlocks are blocks without a device.
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

// TestMoves: blocks go down and come up again as they were; one that is damaged does not, nor does one come that the device could not read.
func TestMoves(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			from := deviceBlocks{content(0, testBytes), content(1, testBytes), content(2, testBytes), content(3, testBytes)}
			if err := Down(t.Context(), from, s, fourMoves(s)); err != nil {
				t.Fatal(err)
			}
			into, up := make(deviceBlocks, 4), fourMoves(s)
			if err := Up(t.Context(), s, into, up); err != nil {
				t.Fatal(err)
			}
			for i, m := range up {
				if !m.Came || m.Took <= 0 || !bytes.Equal(into[i], from[i]) {
					t.Errorf("block %d is not as it was: %v", i, m)
				}
			}
			lost := deviceBlocks{from[3], nil, from[3], from[3]}
			down := fourMoves(s)
			if err := Down(t.Context(), lost, s, down); !errors.Is(err, errGone) || down[1].Came || !errors.Is(down[1].Err, errGone) {
				t.Errorf("a block that can not be read: %v, %v", err, down[1])
			}
			if err := s.Write(t.Context(), up[0].Slot, testHash(9), from[0]); err != nil {
				t.Fatal(err)
			}
			clear(into)
			again := fourMoves(s)
			if err := Up(t.Context(), s, into, again); !errors.Is(err, ErrDamaged) || again[0].Came || into[0] != nil {
				t.Errorf("another block: %v, %v", err, again[0])
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAcross: blocks go from one store to another as they were, and one that is damaged is not passed on.
func TestAcross(t *testing.T) {
	all := stores(t)
	from, to := all["arena"], all["file"]
	moves := fourMoves(to)
	for i := range moves {
		moves[i].Block = from.Slabs().Slot(i/2, i%2)
		if err := from.Write(t.Context(), moves[i].Block, moves[i].Hash, content(i, testBytes)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Across(t.Context(), from, to, testBytes, moves); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, testBytes)
	for i, m := range moves {
		if err := to.Read(t.Context(), m.Slot, testHash(i), got); err != nil || !m.Came || !bytes.Equal(got, content(i, testBytes)) {
			t.Errorf("block %d: %v", i, err)
		}
	}
	from.(*Arena).memory.Bytes()[100] ^= 1
	if err := to.Erase(t.Context(), []int32{moves[0].Slot, moves[1].Slot, moves[2].Slot, moves[3].Slot}); err != nil {
		t.Fatal(err)
	}
	again := slices.Clone(moves)
	for i := range again {
		again[i].Came = false
	}
	if err := Across(t.Context(), from, to, testBytes, again); err != nil || again[0].Came || !errors.Is(again[0].Err, ErrDamaged) || !again[3].Came || len(to.Held()) != 3 {
		t.Errorf("a damaged block: %v, %+v", err, again)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Across(t.Context(), from, to, testBytes, again); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("to a store that is closed: %v", err)
	}
}
