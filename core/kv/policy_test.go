package kv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPolicies: whatever happens, a victim is resident and may leave, there is one as long as there can be, and it stays the same until
// something changes.
func TestPolicies(t *testing.T) {
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
						if ok != slices.ContainsFunc(resident, may) || ok && (!slices.Contains(resident, h) || !may(h)) {
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

// leavers adds and uses blocks in a script, and returns the order in which all then leave: +1 adds block 1, 1 uses it, -1 removes it.
func leavers(p Policy, script ...string) (all []int) {
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
		h, _ := p.Victim(whichever)
		p.Remove(h)
		all = append(all, numbers([]Departure{{Hash: h}})...)
	}
	return all
}

// TestOrderOfLeaving compares each policy with what its paper says for a few blocks.
func TestOrderOfLeaving(t *testing.T) {
	for name, tc := range map[string]struct {
		policy Policy
		script []string
		want   string
	}{
		"lru":                               {newSegmented(5, 0), []string{"+1", "+2", "+3", "1"}, "[2 3 1]"},
		"reuse protects":                    {newSegmented(5, 0.8), []string{"+1", "+2", "1", "+3", "+4"}, "[2 3 4 1]"},
		"not too much of it":                {newSegmented(5, 0.4), []string{"+1", "+2", "+3", "1", "2", "3"}, "[1 2 3]"},
		"s3: first in, first out":           {newS3FIFO(10), []string{"+1", "+2", "+3"}, "[1 2 3]"},
		"s3: what was wanted goes to main":  {newS3FIFO(10), []string{"+1", "+2", "1"}, "[2 1]"},
		"s3: remembered ones go to main":    {newS3FIFO(10), []string{"+1", "-1", "+1", "+2", "+3"}, "[2 3 1]"},
		"s3: main goes around":              {newS3FIFO(10), []string{"+1", "-1", "+1", "+2", "-2", "+2", "1"}, "[2 1]"},
		"lfu: the newcomer goes":            {newTinyLFU(2), []string{"+1", "1", "+2", "+3"}, "[2 3 1]"},
		"lfu: unless it is wanted more":     {newTinyLFU(5), []string{"+1", "+2", "-1", "+1", "2", "2"}, "[1 2]"},
		"lfu: what was wanted is protected": {newTinyLFU(100), []string{"+1", "+2", "1", "1", "2"}, "[2 1]"},
	} {
		if got := fmt.Sprint(leavers(tc.policy, tc.script...)); got != tc.want {
			t.Errorf("%s: %s left, not %s", name, got, tc.want)
		}
	}
	if _, err := NewPolicy("mru", 1); err == nil {
		t.Error("there is a policy called mru")
	}
}

// TestCountsAreForgotten: an estimate is never too low before counts are halved, and halves then.
func TestCountsAreForgotten(t *testing.T) {
	s := newSketch(10)
	for n := range 30 {
		for range n % 3 {
			s.add(Root("test", fmt.Sprint(n), nil))
		}
	}
	for n := range 30 {
		if got := int(s.of(Root("test", fmt.Sprint(n), nil))); got < n%3 {
			t.Errorf("block %d was told of %d times, not %d", n, n%3, got)
		}
	}
	hot := Root("test", "hot", nil)
	for range 14 {
		s.add(hot)
	}
	before := s.of(hot)
	for n := range 100 {
		s.add(Root("other", fmt.Sprint(n), nil))
	}
	if after := s.of(hot); before != 14 || after > 7+3 {
		t.Errorf("%d, and %d a while later", before, after)
	}
}

// hits replays single blocks through a tier of so many slots and returns the share of those that were there.
func hits(name string, slots int, blocks []int) float64 {
	tier, _ := NewTier(TierLimits{Slabs: row(slots)}, name)
	n := 0
	for _, b := range blocks {
		if h := Root("replay", fmt.Sprint(b), nil); tier.Want([]Hash{h}) == 1 {
			n++
		} else if slot, _, ok := tier.Reserve(h, SlotUnit); ok {
			tier.Commit(slot)
		}
	}
	return float64(n) / float64(len(blocks))
}

// TestScansDoNotFlush: where blocks of skewed popularity are mixed with scans, every policy that looks at reuse does better than LRU.
func TestScansDoNotFlush(t *testing.T) {
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
	lru := hits("lru", 200, blocks)
	for _, name := range PolicyNames()[1:] {
		if got := hits(name, 200, blocks); got <= lru {
			t.Errorf("%s: %.3f hits, lru has %.3f", name, got, lru)
		}
	}
}
