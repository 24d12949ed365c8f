package replica_test

import (
	"testing"
	"testing/synctest"

	"troupe/messages"
)

var roomy = size{blocks: 40, sequences: 6}

// TestMovedAtEveryStep: after whatever token a sequence moves, its client sees what it would have seen.
func TestMovedAtEveryStep(t *testing.T) {
	for name, spec := range map[string]func(uint32, uint32, uint32) *messages.SequenceSpec{"greedy": greedy, "sampled": sampled} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, roomy, roomy)
				const tokens = 20
				for at := range tokens - 4 {
					seq := spec(uint32(at), 27, tokens)
					want := c.alone(seq)
					got := c.call(seq)
					c.until("tokens", func() bool { return len(got.Output()) >= at })
					m := c.move(c.a, c.b, got.id).GetSequences()
					if len(m) != 1 || !m[0].GetMoved() || m[0].GetReusedBlocks() != 0 || m[0].GetBytes() == 0 {
						t.Fatalf("after %d tokens: %v", at, m)
					}
					// One step at the most, and one chunk for each block that a step can fill, the partial one too.
					if most := (stepTime + 2*c.bulk.chunkTime).Seconds(); m[0].GetPauseSeconds() > most {
						t.Errorf("after %d tokens: a pause of %v s, of %v", at, m[0].GetPauseSeconds(), most)
					}
					c.finished(got, want)
				}
				if a, b := c.status(c.a), c.status(c.b); a.GetMigratedOut() != tokens-4 || b.GetMigratedIn() != tokens-4 || b.GetNode() != "node-m-1" {
					t.Errorf("%v\n%v", a, b)
				}
				c.empty()
			})
		})
	}
}
