package workload

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// randomLoad draws a load of at most a few hundred requests.
func randomLoad(t *rapid.T) Load {
	l := Load{
		Length: time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second,
		Rate:   rapid.Float64Range(0.01, 5).Draw(t, "rate"), CV: rapid.Float64Range(0, 4).Draw(t, "cv"),
		Models: Names{
			Name: "m", Count: rapid.IntRange(0, 3).Draw(t, "models"), Zipf: rapid.Float64Range(0, 2).Draw(t, "zipf"),
		},
		Adapters: Names{Name: "a", Count: rapid.IntRange(0, 3).Draw(t, "adapters")},
		Prompt:   Lengths{Exponential: 300}, Output: Lengths{Lognormal: Lognormal{20, 1}},
	}
	if rapid.Bool().Draw(t, "diurnal") {
		l.Diurnal = Diurnal{20 * time.Second, rapid.Float64Range(0, 1).Draw(t, "depth"), 7 * time.Second,
			rapid.IntRange(0, 30).Draw(t, "sharpness")}
	}
	for range rapid.IntRange(0, 2).Draw(t, "spikes") {
		at := time.Duration(rapid.IntRange(0, 60).Draw(t, "at")) * time.Second
		l.Spikes = append(l.Spikes, Spike{at, 5 * time.Second, rapid.Float64Range(1, 9).Draw(t, "factor")})
	}
	if rapid.Bool().Draw(t, "conversations") {
		l.Conversation = Conversation{Turns: rapid.Float64Range(1, 5).Draw(t, "turns"), System: 100, Open: 3, Block: 64}
	}
	return l
}

// TestInvariants checks the invariants of the package's documentation by name.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, seed := randomLoad(t), rapid.Uint64().Draw(t, "seed")
		all := collect(t, l.Requests(seed))
		if !slices.IsSortedFunc(all, byTime) || len(all) == 0 || all[0].At < 0 || all[len(all)-1].At >= l.Length {
			t.Fatalf("ordered: %v", all)
		}
		if again := collect(t, l.Requests(seed)); !reflect.DeepEqual(again, all) {
			t.Fatalf("repeated: %v, before %v", again, all)
		}
		checkMerge(t, all, collect(t, randomLoad(t).Requests(seed+1)))
		at := time.Duration(rapid.Int64Range(0, int64(l.Length)).Draw(t, "cut"))
		parts := collect(t, Cut(Of(all), 0, at))
		for _, r := range collect(t, Cut(Of(all), at, l.Length)) {
			r.At += at
			parts = append(parts, r)
		}
		if !reflect.DeepEqual(parts, all) {
			t.Fatalf("cut at %s: %v, want %v", at, parts, all)
		}
		before := map[uint64]uint64{} // the hash before each hash
		for _, r := range all {
			last := uint64(0)
			for _, h := range r.Prefix {
				if seen, ok := before[h]; ok && seen != last && r.Prefix[0] != h {
					t.Fatalf("prefixes: %x follows %x and %x", h, seen, last)
				}
				before[h], last = last, h
			}
		}
	})
}

func byTime(a, b Request) int { return int(max(-1, min(1, a.At-b.At))) }

func collect(t *rapid.T, from Source) []Request {
	all, err := Collect(from)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// checkMerge merges two sources that the clients of their requests identify.
func checkMerge(t *rapid.T, sources ...[]Request) {
	var merging []Source
	total := 0
	for i, s := range sources {
		merging = append(merging, each(Of(s), func(r Request) (Request, bool) {
			r.Client = string(rune('A' + i))
			return r, true
		}))
		total += len(s)
	}
	all := collect(t, Merge(merging...))
	if len(all) != total || !slices.IsSortedFunc(all, byTime) {
		t.Fatalf("merged: %d requests of %d, in order: %t", len(all), total, slices.IsSortedFunc(all, byTime))
	}
	for i, s := range sources {
		next := 0
		for _, r := range all {
			if r.Client != string(rune('A'+i)) {
				continue
			}
			if r.At != s[next].At || r.Prompt != s[next].Prompt {
				t.Fatalf("merged: request %d of source %d is %v, want %v", next, i, r, s[next])
			}
			next++
		}
	}
}

// TestSourcesStop checks that sources that are not read to their end, or fail, stop.
func TestSourcesStop(t *testing.T) {
	fail := failed(&Error{Problem: "fails", Remedy: "none"})
	some := Of([]Request{{At: 1}, {At: 3}})
	for name, s := range map[string]Source{
		"merge": Merge(some, fail, some), "scale": Scale(fail, 2), "cut": Cut(fail, 0, 10),
	} {
		n := 0
		for _, err := range s {
			if n++; err == nil {
				t.Errorf("%s: a request before the error", name)
			}
		}
		if n != 1 {
			t.Errorf("%s: %d values after an error", name, n)
		}
	}
	for r := range Merge(some, some) {
		if r.At == 1 {
			break
		}
	}
	same, err := Collect(Merge(Of([]Request{{}, {At: 2, Client: "a"}}), Of([]Request{{At: 1}, {At: 2, Client: "b"}})))
	if err != nil || same[2].Client+same[3].Client != "ab" {
		t.Errorf("requests at the same time: %v, %v", same, err)
	}
	got, err := Collect(Scale(some, 2))
	if err != nil || got[1].At != 1 {
		t.Errorf("scaled: %v, %v", got, err)
	}
}
