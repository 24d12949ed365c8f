package kvblock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/engine/tier"
	"troupe/messages"
)

const (
	askWithin = 2 * time.Second // a tier may take to answer
	restFor   = time.Second     // after blocks could not be copied down
)

// leaving is a block on its way down.
type leaving struct {
	slot int32
	block
}

// left is how a block's way down ended.
type left int

const (
	stays  left = iota // it could not be copied now
	below              // the lower tier has it
	broken             // it is not what it was
)

// departed and rested are notes to self.
type (
	departed struct {
		incarnation uint64
		blocks      []leaving
		left        []left // of each block
		err         error
	}
	rested struct{ incarnation uint64 }
)

// descent copies blocks to the tier below, one by one: reserve, copy, commit.
type descent struct {
	name   string // unique
	tier   string
	copied func(from, to string, bytes int, took time.Duration)
	from   tier.Store
	to     Lower
	root   *actor.RootContext
	blocks []leaving
}

// run returns how each block fared.
func (d descent) run(ctx context.Context) ([]left, error) {
	result := make([]left, len(d.blocks))
	for i, b := range d.blocks {
		var err error
		if result[i], err = d.move(ctx, b); err != nil {
			return result, fmt.Errorf("to tier %s: %w", d.to.Tier.GetId(), err)
		}
	}
	return result, nil
}

// move reserves a slot below, and commits or aborts it whatever happens in between.
func (d descent) move(ctx context.Context, b leaving) (left, error) {
	commit := &messages.CommitBlocks{RequestId: fmt.Sprintf("%s-%x", d.name, b.hash)}
	defer func() { d.root.Send(d.to.Tier, commit) }()
	answer, err := d.root.RequestFuture(d.to.Tier, &messages.ReserveSlots{
		RequestId: commit.RequestId, Hashes: [][]byte{b.hash[:]}, BlockBytes: uint64(b.bytes),
	}, askWithin).Result()
	if err != nil {
		return stays, err
	}
	reserved := answer.(*messages.ReserveSlotsResult).GetReserved()
	switch {
	case len(reserved.GetHeld()) > 0:
		return below, nil
	case len(reserved.GetSlots()) == 0:
		return stays, fmt.Errorf("no room: %s", answer.(*messages.ReserveSlotsResult).GetRefused().GetDetail())
	}
	bytes, began := make([]byte, b.bytes), time.Now()
	if err := d.from.Read(ctx, b.slot, b.hash, bytes); errors.Is(err, tier.ErrDamaged) {
		return broken, nil
	} else if err != nil {
		return stays, err
	}
	if err := d.to.Store.Write(ctx, int32(reserved.GetSlots()[0].GetIndex()), b.hash, bytes); err != nil {
		return stays, err
	}
	d.copied(d.tier, d.to.Name, b.bytes, time.Since(began))
	commit = &messages.CommitBlocks{RequestId: commit.RequestId, Written: [][]byte{b.hash[:]}}
	return below, nil
}
