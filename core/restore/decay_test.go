package restore

import (
	"testing"
	"time"

	"troupe/core/kv"
)

// TestAvoidedTierIsTriedAgain checks that a tier that was too slow is tried again eventually.
func TestAvoidedTierIsTriedAgain(t *testing.T) {
	m := New(Config{Tiers: []string{"dram"}, Policy: kv.RestoreAuto, BlockBytes: 1000, BlockTokens: 4, Parts: 1})
	m.Prefilled(1000, time.Second)
	judge := func() (number uint64, copies bool) {
		m.Queued("s")
		m.Admissible(Candidate{ID: "s", Hashes: []kv.Hash{{1}}})
		m.LookedUp(m.last, []int{0}, nil)
		for _, e := range m.Judged(m.last, Sequence{Waits: true, Tokens: 8}) {
			if r, ok := e.(Reserve); ok {
				m.Reserved(r.Number, nil, []int32{1})
				copies = true
			}
		}
		return m.last, copies
	}
	number, copies := judge()
	if !copies {
		t.Fatal("a tier that was not measured is not tried")
	}
	m.Copied(number, Result{Blocks: 1, Reads: []Read{{1000, 20 * time.Millisecond}}}) // recomputing takes 4 ms
	m.EndRestores()
	tries := 0
	for copies = false; !copies && tries < 400; tries++ {
		_, copies = judge()
	}
	if tries < 10 || tries == 400 || m.Counts().Avoided != uint64(tries-1) {
		t.Errorf("the tier was tried again after %d lookups: %+v", tries, m.Counts())
	}
}
