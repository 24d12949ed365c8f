package router

import (
	"fmt"
	"testing"

	"troupe/core/kv"
	"troupe/core/route"
)

// TestBlockSizeIsKnown checks that a loading replica, whose block size is not known yet, does not
// hide the blocks of other replicas.
func TestBlockSizeIsKnown(t *testing.T) {
	m, prompt := New("a", []Stored{{Name: "m"}}), []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9}
	report := func(name string, state route.State, blockTokens int, blocks []uint64) {
		m.Reported(Report{Model: "m", Committed: blocks, Replica: route.Replica{
			Name: name, State: state, MaxSequences: 8, StepTokens: 64, BlockTokens: blockTokens, Running: len(blocks),
		}}, epoch)
	}
	report("m-0", route.Serving, 4, kv.Fingerprints(kv.Hashes(kv.Root("m", "", nil), prompt, 4)))
	report("m-1", route.Serving, 4, nil)
	report("m-2", route.Loading, 0, nil)
	effects := m.Route(Request{ID: "r", Model: "m", Prompt: prompt}, epoch)
	if a := effects[0].(Answer); a.Routed.Replica != "m-0" {
		t.Errorf("%v, want the replica with the blocks", a)
	}
}

// TestBounds checks the invariant bounded of doc.go.
func TestBounds(t *testing.T) {
	m := New("a", nil)
	blocks := make([]uint64, snapshotBlocks+1)
	for i := range blocks {
		blocks[i] = uint64(i + 1)
	}
	m.Reported(Report{Replica: route.Replica{Name: "m-0"}, Model: "m", Committed: blocks}, epoch)
	m.TierReported(TierReport{Name: "dram", Committed: blocks})
	s := m.Snapshot()
	if len(s.Replicas[0].Blocks) != snapshotBlocks || len(s.Tiers[0].Committed) != snapshotBlocks {
		t.Errorf("a snapshot has %d and %d blocks", len(s.Replicas[0].Blocks), len(s.Tiers[0].Committed))
	}

	var spread []uint64
	m.Members([]Member{{Name: "b", ID: "1"}, {Name: "c", ID: "1"}}, epoch)
	for i, node := range []string{"b", "c"} {
		var every []uint64
		for b := i; b < 20; b += 2 {
			every = append(every, uint64(100+b))
		}
		m.Announced(Announcement{Node: node, Incarnation: 1, Snapshot: true,
			Tiers: []TierReport{{Name: "dram", Committed: every}}}, epoch)
	}
	for b := range uint64(20) {
		spread = append(spread, 100+b)
	}
	if runs := m.Find(Query{Model: "m", Blocks: make([]uint64, 20), InTiers: spread}, epoch); len(runs) != maxRuns {
		t.Errorf("%d runs", len(runs))
	}

	for i := range loggedRequests + 1 {
		for range decisionsPerRequest + 1 {
			m.Route(Request{ID: fmt.Sprint(i), Model: "m", Cause: "again"}, epoch)
		}
	}
	if first, last := m.Explain("0"), m.Explain(fmt.Sprint(loggedRequests)); len(first) != 0 ||
		len(last) != decisionsPerRequest || len(m.log.byRequest) != loggedRequests {
		t.Errorf("the log has %d requests, %d and %d decisions", len(m.log.byRequest), len(first), len(last))
	}
}
