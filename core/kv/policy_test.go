package kv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPolicyVictimIsResidentAndEligible checks that a victim is resident and eligible, and there is
// one whenever possible. It stays the same until something changes, except in W-TinyLFU, which
// promotes blocks while it searches.
func TestPolicyVictimIsResidentAndEligible(t *testing.T) {
	for _, name := range PolicyNames() {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				p, err := NewPolicy(name, rapid.IntRange(1, 12).Draw(t, "slots"))
				if err != nil {
					t.Fatal(err)
				}
				var resident []Hash
				t.Repeat(map[string]func(*rapid.T){
					"add": func(t *rapid.T) {
						if h := testHash(rapid.IntRange(1, 30).Draw(t, "block")); !slices.Contains(resident, h) {
							p.Add(h)
							resident = append(resident, h)
						}
					},
					"use": func(t *rapid.T) {
						if len(resident) > 0 {
							p.Use(rapid.SampledFrom(resident).Draw(t, "block"))
						}
					},
					"remove": func(t *rapid.T) {
						if len(resident) > 0 {
							i := rapid.IntRange(0, len(resident)-1).Draw(t, "block")
							p.Remove(resident[i])
							resident = slices.Delete(resident, i, i+1)
						}
					},
					"victim": func(t *rapid.T) {
						stay := rapid.SliceOfDistinct(rapid.IntRange(1, 30), rapid.ID[int]).Draw(t, "pinned")
						may := func(h Hash) bool {
							return !slices.ContainsFunc(stay, func(n int) bool { return testHash(n) == h })
						}
						h, ok := p.Victim(may)
						if ok != slices.ContainsFunc(resident, may) || ok &&
							(!slices.Contains(resident, h) || !may(h)) {
							t.Fatalf("victim %x, %v; resident %x, pinned %v", h[:2], ok, resident, stay)
						}
						if again, _ := p.Victim(may); ok && again != h && name != "w-tinylfu" {
							t.Fatalf("victim %x, then %x", h[:2], again[:2])
						}
					},
				})
			})
		})
	}
}

// evictionOrder runs a script and returns the order in which the remaining blocks are evicted: +1
// adds block 1, 1 uses it, -1 removes it.
func evictionOrder(p Policy, script ...string) (all []int) {
	left := 0
	for _, s := range script {
		var n int
		fmt.Sscan(s, &n)
		switch s[0] {
		case '+':
			p.Add(testHash(n))
			left++
		case '-':
			p.Remove(testHash(-n))
			left--
		default:
			p.Use(testHash(n))
		}
	}
	for range left {
		h, _ := p.Victim(anyBlock)
		p.Remove(h)
		all = append(all, blockNumbers([]Demotion{{Hash: h}})...)
	}
	return all
}

// TestEvictionOrder compares each policy with its paper for a few blocks.
func TestEvictionOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		policy Policy
		script []string
		want   string
	}{
		"lru":                              {newSLRU(5, 0), []string{"+1", "+2", "+3", "1"}, "[2 3 1]"},
		"slru: used blocks are protected":  {newSLRU(5, 0.8), []string{"+1", "+2", "1", "+3", "+4"}, "[2 3 4 1]"},
		"slru: protected share is limited": {newSLRU(5, 0.4), []string{"+1", "+2", "+3", "1", "2", "3"}, "[1 2 3]"},
		"s3: first in, first out":          {newS3FIFO(10), []string{"+1", "+2", "+3"}, "[1 2 3]"},
		"s3: used blocks move to main":     {newS3FIFO(10), []string{"+1", "+2", "1"}, "[2 1]"},
		"s3: ghost hits enter main":        {newS3FIFO(10), []string{"+1", "-1", "+1", "+2", "+3"}, "[2 3 1]"},
		"s3: main reinserts used blocks": {newS3FIFO(10), []string{"+1", "-1", "+1", "+2", "-2", "+2", "1"},
			"[2 1]"},
		"lfu: new blocks lose ties":         {newTinyLFU(2), []string{"+1", "1", "+2", "+3"}, "[2 3 1]"},
		"lfu: frequent blocks are admitted": {newTinyLFU(5), []string{"+1", "+2", "-1", "+1", "2", "2"}, "[1 2]"},
		"lfu: used blocks are protected":    {newTinyLFU(100), []string{"+1", "+2", "1", "1", "2"}, "[2 1]"},
	} {
		if got := fmt.Sprint(evictionOrder(tc.policy, tc.script...)); got != tc.want {
			t.Errorf("%s: evicted %s, want %s", name, got, tc.want)
		}
	}
	if _, err := NewPolicy("mru", 1); err == nil {
		t.Error("NewPolicy accepts mru")
	}
}

// TestSketchHalvesCounts checks that estimates are never too low before the counts are halved, and
// shrink then.
func TestSketchHalvesCounts(t *testing.T) {
	s := newSketch(10)
	for n := range 30 {
		for range n % 3 {
			s.add(Root("test", fmt.Sprint(n), nil))
		}
	}
	for n := range 30 {
		if got := int(s.estimate(Root("test", fmt.Sprint(n), nil))); got < n%3 {
			t.Errorf("block %d was used %d times, estimate %d", n, n%3, got)
		}
	}
	hot := Root("test", "hot", nil)
	for range 14 {
		s.add(hot)
	}
	before := s.estimate(hot)
	for n := range 100 {
		s.add(Root("other", fmt.Sprint(n), nil))
	}
	if after := s.estimate(hot); before != 14 || after > 7+3 {
		t.Errorf("estimate %d before halving, %d after", before, after)
	}
}

// hitRate replays single blocks through a tier with the given slots and returns the share of hits.
func hitRate(name string, slots int, blocks []int) float64 {
	tier, _ := NewTier(TierLimits{Slabs: oneSlab(slots)}, name)
	n := 0
	for _, b := range blocks {
		if h := Root("replay", fmt.Sprint(b), nil); tier.Lookup([]Hash{h}) == 1 {
			n++
		} else if slot, _, ok := tier.Reserve(h, SlotUnit); ok {
			tier.Commit(slot)
		}
	}
	return float64(n) / float64(len(blocks))
}

// TestReuseAwarePoliciesResistScans checks that on blocks of skewed popularity mixed with scans,
// every reuse-aware policy has more hits than LRU.
func TestReuseAwarePoliciesResistScans(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	popular := rand.NewZipf(r, 1.1, 1, 2000)
	var blocks []int
	for scan := 10_000; len(blocks) < 40_000; {
		for range 200 {
			blocks = append(blocks, int(popular.Uint64()))
		}
		for range 200 {
			scan++
			blocks = append(blocks, scan)
		}
	}
	lru := hitRate("lru", 200, blocks)
	for _, name := range PolicyNames()[1:] {
		if got := hitRate(name, 200, blocks); got <= lru {
			t.Errorf("%s: hit rate %.3f, lru %.3f", name, got, lru)
		}
	}
}
