package bulk_test

import (
	"runtime"
	"testing"
	"time"

	"troupe/cluster/bulk"
)

// TestMemory sends 1 GiB and samples the live heap. It stays within the window, however large the
// transfer. The sink stalls at each sample, so that the whole window is in flight.
func TestMemory(t *testing.T) {
	const window, chunkBytes, chunks, looks = 16 << 20, 1 << 20, 1 << 10, 8
	a, b := listen(t, bulk.Config{}), listen(t, bulk.Config{Window: window})
	before, most := heap(), uint64(0)
	ticket := expect(t, b, chunkBytes, chunks, func(i uint32, _ []byte) error {
		if i%(chunks/looks) == chunks/looks-1 {
			waitStalled(a)
			most = max(most, heap())
		}
		return nil
	})
	fill := func(_ uint32, into []byte) (int, error) { return len(into), nil }
	if err := a.Send(within(t), ticket, all(chunks), fill); err != nil {
		t.Fatal(err)
	}
	b.Drop(ticket)
	if limit := before + window/2; most > limit {
		t.Errorf("%d bytes of heap in use, %d before, limit %d", most, before, limit)
	}
	t.Logf("%.1f MiB more than before", float64(most-before)/(1<<20))
}

// waitStalled waits until a plane sends nothing more.
func waitStalled(p *bulk.Plane) {
	sent := func() (chunks uint64) {
		for _, to := range p.Stats().Sent {
			chunks += to.Chunks
		}
		return chunks
	}
	for before, still := sent(), 0; still < 10; still++ {
		if now := sent(); now != before {
			before, still = now, 0
		}
		<-time.After(time.Millisecond)
	}
}

// heap returns the bytes in use after garbage collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // pools keep freed objects for one more cycle
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
