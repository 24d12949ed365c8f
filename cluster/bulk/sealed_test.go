package bulk_test

import (
	"encoding/binary"
	"errors"
	"hash"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/zeebo/xxh3"

	"troupe/cluster/bulk"
)

func sumOf(index uint32, _ int) hash.Hash64 { return xxh3.NewSeed(uint64(index) * 7) }

func seal(chunk []byte, index uint32) []byte {
	sum := sumOf(index, len(chunk))
	_, _ = sum.Write(chunk)
	return binary.BigEndian.AppendUint64(slices.Clip(chunk), sum.Sum64())
}

// TestWrongSeal: a chunk with another chunk's seal, or one damaged before it was sent, is never
// put, and Send fails.
func TestWrongSeal(t *testing.T) {
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{})
	for name, chunk := range map[string][]byte{
		"another's": seal([]byte("the second"), 2), "damaged": append(seal([]byte("the first"), 1), 0),
		"none": []byte("short"),
	} {
		var puts atomic.Int64
		ticket, err := b.ExpectSealed(100, 2, sumOf, func(uint32, []byte) error { puts.Add(1); return nil })
		if err != nil {
			t.Fatal(err)
		}
		err = a.Send(
			t.Context(),
			ticket,
			[]uint32{1},
			func(_ uint32, into []byte) (int, error) { return copy(into, chunk), nil },
		)
		if err == nil || name != "none" && !errors.Is(err, bulk.ErrChecksum) || puts.Load() != 0 {
			t.Errorf("%s: %v, %d chunks were put", name, err, puts.Load())
		}
		b.Drop(ticket)
	}
}
