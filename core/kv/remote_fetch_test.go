package kv

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestElsewhere: whatever comes and ends in whichever order, fetches begin in turn and within the capacity, and blocks are what they should be.
func TestElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity, waiting = 10, 3
		e := NewElsewhere(capacity, waiting)
		var came, begun []string // in order
		flights := map[string]Flight{}
		underWay := map[string]bool{}
		number := 0
		begins := func(all []Flight) {
			for _, f := range all {
				begun = append(begun, f.ID)
				underWay[f.ID] = true
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"begin": func(t *rapid.T) {
				number++
				f := Flight{ID: fmt.Sprint(number), Holder: "b", Bytes: rapid.Int64Range(1, 14).Draw(t, "bytes"), Blocks: rapid.SliceOfNDistinct(rapid.Uint64Range(0, 5), 1, 4, rapid.ID).Draw(t, "blocks")}
				wait := len(flights) - len(underWay)
				all, err := e.Begin(f)
				if (err != nil) != (wait == waiting) {
					t.Fatalf("%d wait: %v", wait, err)
				}
				if err == nil {
					flights[f.ID], came = f, append(came, f.ID)
				}
				begins(all)
				if again, err := e.Begin(f); err == nil && len(again) > 0 {
					t.Fatalf("it began again: %v", again)
				}
			},
			"end": func(t *rapid.T) {
				ids := make([]string, 0, len(flights))
				for id := range flights {
					ids = append(ids, id)
				}
				if len(ids) == 0 {
					t.Skip("none")
				}
				slices.Sort(ids)
				id := rapid.SampledFrom(ids).Draw(t, "id")
				if delete(flights, id); !underWay[id] {
					came = slices.DeleteFunc(came, func(c string) bool { return c == id })
				}
				delete(underWay, id)
				begins(e.End(id, 0))
				if again := e.End(id, 0); len(again) > 0 {
					t.Fatalf("its end began %v a second time", again)
				}
			},
			"": func(t *rapid.T) {
				var bytes int64
				arriving := map[uint64]bool{}
				for id, f := range flights {
					if underWay[id] {
						bytes += f.Bytes
					}
					for _, b := range f.Blocks {
						arriving[b] = true
					}
				}
				if bytes > capacity && len(underWay) > 1 || len(underWay) == 0 && len(flights) > 0 {
					t.Fatalf("%d bytes of %d fetches are under way of %d", bytes, len(underWay), len(flights))
				}
				if !slices.Equal(begun, came[:len(begun)]) {
					t.Fatalf("they came as %v and began as %v", came, begun)
				}
				for b := range uint64(6) {
					if (e.State(b) == Arriving) != arriving[b] {
						t.Fatalf("block %d is %v", b, e.State(b))
					}
				}
				if s := e.Stats(); s.InFlight != bytes || s.Flights != len(underWay) || s.Flights+s.Waiting != len(flights) || s.Arriving != len(arriving) {
					t.Fatalf("%+v with %d bytes, %d of %d under way", s, bytes, len(underWay), len(flights))
				}
			},
		})
	})
}

// TestElsewhereStates: a block is Resident while a holder is known to have it, until it is forgotten or does not come.
func TestElsewhereStates(t *testing.T) {
	now := time.Unix(1e9, 0)
	e := NewElsewhere(100, 1)
	e.Found([]uint64{1, 2, 3}, now)
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
	_, _ = e.Begin(Flight{ID: "a", Blocks: []uint64{0, 1, 2}, Bytes: 60})
	expect("under way", Arriving, Arriving, Arriving, Resident)
	_, _ = e.Begin(Flight{ID: "b", Blocks: []uint64{3}, Bytes: 60})
	e.End("b", 0)
	expect("one that waited was given up", Arriving, Arriving, Arriving, Resident)
	e.End("a", 2)
	expect("two came", Absent, Resident, Absent, Resident)
	e.Found([]uint64{1}, now.Add(knownFor+1))
	e.Found([]uint64{1}, now.Add(2*knownFor+2))
	expect("after a while", Absent, Resident, Absent, Absent)
}

// TestElsewhereHolders: what is measured is kept by holder, and what is to come over a way is known before it has come.
func TestElsewhereHolders(t *testing.T) {
	now := time.Unix(1e9, 0)
	e := NewElsewhere(100, 1)
	if p := e.Path("dram on b", now); p.Rate.PerSecond() != 0 || p.Try != linkTry || p.Queued != 0 {
		t.Errorf("an unknown way: %+v", p)
	}
	e.Fetched("dram on b", "b", 6, Fetch{Blocks: 5, BlockBytes: 1000, Bytes: 5000, FirstBytes: 1000, First: 150 * time.Microsecond, All: 4150 * time.Microsecond}, now)
	e.Fetched("dram on b", "b", 4, Fetch{BlockBytes: 1000, First: time.Second, All: time.Second}, now)
	_, _ = e.Begin(Flight{ID: "a", Holder: "dram on b", Blocks: []uint64{1}, Bytes: 60})
	_, _ = e.Begin(Flight{ID: "b", Holder: "dram on c", Blocks: []uint64{1}, Bytes: 60})
	if p := e.Path("dram on b", now); p.Rate.PerSecond() != 1e6 || p.Queued != 60 || p.Latency < 150*time.Microsecond {
		t.Errorf("a measured way: %+v", p)
	}
	all := e.Holders()
	if len(all) != 1 || all[0].Fetches != 2 || all[0].Blocks != 5 || all[0].Missed != 5 || all[0].Bytes != 5000 || all[0].Latencies[1] != 1 || all[0].Latency != 150*time.Microsecond {
		t.Errorf("%+v", all)
	}
	if s := e.Stats(); s.Hits != 5 || s.Misses != 5 || s.Bytes != 5000 {
		t.Errorf("%+v", s)
	}
	for i := range 3 * maxHolders {
		e.Fetched(fmt.Sprint(i), "c", 1, Fetch{Blocks: 1, BlockBytes: 1, Bytes: 1, FirstBytes: 1, First: time.Hour, All: time.Hour}, now)
	}
	if all := e.Holders(); len(all) > maxHolders || all[0].Latencies[latencies-1] != 1 {
		t.Errorf("%d holders are remembered, the first as %+v", len(all), all[0])
	}
	if bounds := LatencyBounds(); len(bounds) != latencies-1 || bounds[1] != 200*time.Microsecond {
		t.Errorf("%v", bounds)
	}
}
