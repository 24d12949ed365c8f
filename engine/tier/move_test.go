package tier

import (
	"bytes"
	"context"
	"errors"
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

func fourMoves() []Move {
	all := make([]Move, 4)
	for i := range all {
		all[i] = Move{Block: int32(i), Slot: int32(3 - i), Hash: testHash(i)}
	}
	return all
}

// TestMoves: blocks go down and come up again as they were; one that is damaged does not, nor does one come that the device could not read.
func TestMoves(t *testing.T) {
	for name, s := range stores(t) {
		t.Run(name, func(t *testing.T) {
			from := deviceBlocks{content(0, testBytes), content(1, testBytes), content(2, testBytes), content(3, testBytes)}
			if err := Down(t.Context(), from, s, fourMoves()); err != nil {
				t.Fatal(err)
			}
			into, up := make(deviceBlocks, 4), fourMoves()
			if err := Up(t.Context(), s, into, up); err != nil {
				t.Fatal(err)
			}
			for i, m := range up {
				if !m.Came || m.Took <= 0 || !bytes.Equal(into[i], from[i]) {
					t.Errorf("block %d is not as it was: %v", i, m)
				}
			}
			lost := deviceBlocks{from[3], nil, from[3], from[3]}
			down := fourMoves()
			if err := Down(t.Context(), lost, s, down); !errors.Is(err, errGone) || down[1].Came || !errors.Is(down[1].Err, errGone) {
				t.Errorf("a block that can not be read: %v, %v", err, down[1])
			}
			if err := s.Write(t.Context(), 3, testHash(9), from[0]); err != nil {
				t.Fatal(err)
			}
			clear(into)
			again := fourMoves()
			if err := Up(t.Context(), s, into, again); !errors.Is(err, ErrDamaged) || again[0].Came || into[0] != nil {
				t.Errorf("another block: %v, %v", err, again[0])
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
