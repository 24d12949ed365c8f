package bulk_test

import (
	"runtime"
	"testing"

	"troupe/cluster/bulk"
	"troupe/testkit"
)

// TestMemory sends 256 MiB and samples the live heap. It stays within the window, however large the
// transfer. The sink stalls at each sample until the stream's share of the window is in flight.
func TestMemory(t *testing.T) {
	const window, chunkBytes, chunks, looks = 16 << 20, 128 << 10, 2 << 10, 8
	const share = window / 9 / chunkBytes // a stream may fill an eighth of what it leaves free
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{Window: window})
	before, most := heap(), uint64(0)
	ticket := expect(t, b, chunkBytes, chunks, func(i uint32, _ []byte) error {
		if i%(chunks/looks) == chunks/looks-1 {
			left := int(chunks - i)
			testkit.Until(t, "the window is full", func() bool {
				return int(a.Stats().Sent[b.Address()].Chunks) >= int(i)+min(share, left)
			})
			most = max(most, heap())
		}
		return nil
	})
	fill := func(_ uint32, into []byte) (int, error) { return len(into), nil }
	if err := a.Send(t.Context(), ticket, all(chunks), fill); err != nil {
		t.Fatal(err)
	}
	b.Drop(ticket)
	if limit := before + window/2; most > limit {
		t.Errorf("%d bytes of heap in use, %d before, limit %d", most, before, limit)
	}
	t.Logf("%.1f MiB more than before", float64(most-before)/(1<<20))
}

// heap returns the bytes in use after garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // pools keep freed objects for one more cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
