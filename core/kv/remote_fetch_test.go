package kv

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRemoteFetcherStartsInOrderWithinCapacity checks that fetches start in request order and
// within the capacity, and that block states match, for random orders of requests and ends.
func TestRemoteFetcherStartsInOrderWithinCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity, waiting = 10, 3
		e := NewRemoteFetcher(capacity, waiting)
		var order, started []string // request order, start order
		fetches := map[string]Fetch{}
		active := map[string]bool{}
		number := 0
		start := func(all []Fetch) {
			for _, f := range all {
				started = append(started, f.ID)
				active[f.ID] = true
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				number++
				f := Fetch{ID: fmt.Sprint(number), Holder: "b", Bytes: rapid.Int64Range(1, 14).Draw(t, "bytes"),
					Blocks: rapid.SliceOfNDistinct(rapid.Uint64Range(0, 5), 1, 4, rapid.ID).Draw(t, "blocks")}
				wait := len(fetches) - len(active)
				all, err := e.Start(f)
				if (err != nil) != (wait == waiting) {
					t.Fatalf("with %d waiting: %v", wait, err)
				}
				if err == nil {
					fetches[f.ID], order = f, append(order, f.ID)
				}
				start(all)
				if again, err := e.Start(f); err == nil && len(again) > 0 {
					t.Fatalf("a known fetch started again: %v", again)
				}
			},
			"end": func(t *rapid.T) {
				ids := make([]string, 0, len(fetches))
				for id := range fetches {
					ids = append(ids, id)
				}
				if len(ids) == 0 {
					t.Skip("none")
				}
				slices.Sort(ids)
				id := rapid.SampledFrom(ids).Draw(t, "id")
				if delete(fetches, id); !active[id] {
					order = slices.DeleteFunc(order, func(c string) bool { return c == id })
				}
				delete(active, id)
				start(e.Finish(id, 0))
				if again := e.Finish(id, 0); len(again) > 0 {
					t.Fatalf("the second Finish started %v", again)
				}
			},
			"": func(t *rapid.T) {
				var bytes int64
				arriving := map[uint64]bool{}
				for id, f := range fetches {
					if active[id] {
						bytes += f.Bytes
					}
					for _, b := range f.Blocks {
						arriving[b] = true
					}
				}
				if bytes > capacity && len(active) > 1 || len(active) == 0 && len(fetches) > 0 {
					t.Fatalf("%d bytes of %d fetches in flight, %d fetches in total", bytes, len(active), len(fetches))
				}
				if !slices.Equal(started, order[:len(started)]) {
					t.Fatalf("requested as %v, started as %v", order, started)
				}
				for b := range uint64(6) {
					if (e.State(b) == Arriving) != arriving[b] {
						t.Fatalf("block %d is %v", b, e.State(b))
					}
				}
				if s := e.Stats(); s.InFlightBytes != bytes || s.Active != len(active) ||
					s.Active+s.Waiting != len(fetches) || s.Arriving != len(arriving) {
					t.Fatalf("%+v, want %d bytes in flight and %d of %d fetches active", s, bytes, len(active),
						len(fetches))
				}
			},
		})
	})
}

// TestRemoteFetcherBlockStates checks that a block is Resident while a holder is known to have it,
// until that expires or the block does not arrive.
func TestRemoteFetcherBlockStates(t *testing.T) {
	now := time.Unix(1e9, 0)
	e := NewRemoteFetcher(100, 1)
	e.MarkAvailable([]uint64{1, 2, 3}, now)
	states := func() (all [4]State) {
		for i := range all {
			all[i] = e.State(uint64(i))
		}
		return all
	}
	expect := func(what string, want ...State) {
		t.Helper()
		resident := 0
		for _, s := range want {
			if s == Resident {
				resident++
			}
		}
		if got := states(); !slices.Equal(got[:], want) || e.Stats().Resident != resident {
			t.Errorf("%s: %v, %+v, want %v", what, got, e.Stats(), want)
		}
	}
	expect("found", Absent, Resident, Resident, Resident)
	_, _ = e.Start(Fetch{ID: "a", Blocks: []uint64{0, 1, 2}, Bytes: 60})
	expect("in flight", Arriving, Arriving, Arriving, Resident)
	_, _ = e.Start(Fetch{ID: "b", Blocks: []uint64{3}, Bytes: 60})
	e.Finish("b", 0)
	expect("a waiting fetch was given up", Arriving, Arriving, Arriving, Resident)
	e.Finish("a", 2)
	expect("two blocks arrived", Absent, Resident, Absent, Resident)
	e.MarkAvailable([]uint64{1}, now.Add(knownTTL+1))
	e.MarkAvailable([]uint64{1}, now.Add(2*knownTTL+2))
	expect("expired", Absent, Resident, Absent, Absent)
}

// TestRemoteFetcherHolderStats checks that measurements are kept per holder, and the path includes
// the bytes in flight.
func TestRemoteFetcherHolderStats(t *testing.T) {
	now := time.Unix(1e9, 0)
	e := NewRemoteFetcher(100, 1)
	if p := e.Path("dram on b", now); p.Rate.PerSecond() != 0 || p.ProbeBlocks != linkProbeBlocks || p.Queued != 0 {
		t.Errorf("unmeasured path: %+v", p)
	}
	e.Record("dram on b", "b", 6, FetchSample{Blocks: 5, BlockBytes: 1000, Bytes: 5000, FirstBytes: 1000,
		First: 150 * time.Microsecond, All: 4150 * time.Microsecond}, now)
	e.Record("dram on b", "b", 4, FetchSample{BlockBytes: 1000, First: time.Second, All: time.Second}, now)
	_, _ = e.Start(Fetch{ID: "a", Holder: "dram on b", Blocks: []uint64{1}, Bytes: 60})
	_, _ = e.Start(Fetch{ID: "b", Holder: "dram on c", Blocks: []uint64{1}, Bytes: 60})
	if p := e.Path("dram on b", now); p.Rate.PerSecond() != 1e6 || p.Queued != 60 || p.Latency < 150*time.Microsecond {
		t.Errorf("measured path: %+v", p)
	}
	all := e.Holders()
	if len(all) != 1 || all[0].Fetches != 2 || all[0].Blocks != 5 || all[0].Missed != 5 || all[0].Bytes != 5000 ||
		all[0].Latencies[1] != 1 || all[0].Latency != 150*time.Microsecond {
		t.Errorf("%+v", all)
	}
	if s := e.Stats(); s.Hits != 5 || s.Misses != 5 || s.Bytes != 5000 {
		t.Errorf("%+v", s)
	}
	for i := range 3 * maxHolders {
		e.Record(fmt.Sprint(i), "c", 1, FetchSample{Blocks: 1, BlockBytes: 1, Bytes: 1, FirstBytes: 1,
			First: time.Hour, All: time.Hour}, now)
	}
	if all := e.Holders(); len(all) > maxHolders || all[0].Latencies[latencyBuckets-1] != 1 {
		t.Errorf("%d holders kept, the first is %+v", len(all), all[0])
	}
	if bounds := LatencyBounds(); len(bounds) != latencyBuckets-1 || bounds[1] != 200*time.Microsecond {
		t.Errorf("%v", bounds)
	}
}

// State returns the state of a block: Resident at another holder, Arriving from there, or Absent.
func (e *RemoteFetcher) State(block uint64) State {
	switch {
	case e.arriving[block] > 0:
		return Arriving
	case e.known[0][block] || e.known[1][block]:
		return Resident
	}
	return Absent
}
