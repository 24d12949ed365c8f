package tiering

import (
	"context"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/messages"
)

// closedBlocks counts how often the blocks of a lease are closed.
type closedBlocks struct {
	Blocks
	times int
}

func (b *closedBlocks) Close() error {
	b.times++
	return nil
}

// TestCloseOnce checks that the blocks are closed once by a replica that stops while it restarts, and that the
// tiers are gone afterwards.
func TestCloseOnce(t *testing.T) {
	tiers := New(Config{Spec: &messages.ReplicaSpec{Name: "m-0"}, Life: context.Background()}, nil, nil)
	blocks := &closedBlocks{}
	tiers.kvTiers = &kvTiers{down: blocks, copier: actor.NewPID("here", "copier")}
	for range 2 {
		tiers.Close()
		if blocks.times != 1 || tiers.CopierPID() != nil {
			t.Errorf("closed %d times, copier %v", blocks.times, tiers.CopierPID())
		}
	}
}
