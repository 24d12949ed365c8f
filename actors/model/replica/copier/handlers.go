package copier

import (
	"context"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/types/known/durationpb"

	"troupe/actors/supervise"
	"troupe/core/kv"
	"troupe/messages"
)

func (c *copier) onStarted(ctx actor.Context) {
	c.life, c.cancel = context.WithCancel(context.Background())
	c.lookups = make(map[uint64]*lookup)
	for _, open := range []*Blocks{&c.up, &c.down} { // one copy stream per direction
		blocks, err := c.OpenBlocks()
		if err != nil {
			panic(err)
		}
		*open = blocks
	}
	ctx.Send(ctx.Parent(), &messages.CopierReady{Incarnation: c.incarnation})
}

// onStop ends all copies. When it returns, no copy of this incarnation accesses the blocks, and all
// blocks that were looked up are unlocked, or will be as soon as their lookup ends.
func (c *copier) onStop(ctx actor.Context) {
	if c.life == nil {
		return // before Started
	}
	c.cancel()
	for _, opened := range []Blocks{c.up, c.down} {
		if opened != nil {
			_ = opened.Close() // the content of the blocks belongs to the lease
		}
	}
	for _, number := range slices.Sorted(maps.Keys(c.lookups)) {
		c.lookups[number].unlock(ctx.ActorSystem().Root, nil)
	}
}

func (c *copier) onLookUp(ctx actor.Context, msg *messages.LookUpBlocks) {
	if msg.GetIncarnation() != c.incarnation {
		return
	}
	l := &lookup{number: msg.GetCopy(), request: msg.GetRequestId(), hashes: hashesOf(msg.GetHashes()),
		namespace: kv.Hash(msg.GetSpace()), within: msg.GetWithin().AsDuration(),
		model: msg.GetModel(), replica: msg.GetReplica()}
	for _, name := range msg.GetTiers() {
		if i := slices.IndexFunc(c.Tiers, func(t Tier) bool { return t.Name == name }); i >= 0 {
			l.tiers = append(l.tiers, c.Tiers[i])
		}
	}
	if msg.GetRemote() && c.Bulk != nil {
		l.remote = c.Remote
	}
	c.lookups[l.number] = l
	root, incarnation := ctx.ActorSystem().Root, c.incarnation
	supervise.Job(ctx, c.life,
		func(life context.Context) (found, error) { return l.run(life, root), nil },
		func(result found, _ error) any {
			l.found = result
			return &lookupDone{incarnation, l}
		})
}

func (c *copier) onLookupDone(ctx actor.Context, msg *lookupDone) {
	if msg.incarnation != c.incarnation {
		return // the end of that incarnation unlocks the blocks
	}
	ctx.Send(ctx.Parent(), msg.lookup.result())
}

func (c *copier) onRelease(ctx actor.Context, msg *messages.ReleaseFoundBlocks) {
	if l := c.lookups[msg.GetCopy()]; l != nil && msg.GetIncarnation() == c.incarnation {
		delete(c.lookups, msg.GetCopy())
		l.unlock(ctx.ActorSystem().Root, nil)
	}
}

// onCopy starts copying the blocks of a lookup. When the copy ends, it unlocks them.
func (c *copier) onCopy(ctx actor.Context, msg *messages.CopyFoundBlocks) {
	l := c.lookups[msg.GetCopy()]
	if l == nil || msg.GetIncarnation() != c.incarnation {
		return
	}
	delete(c.lookups, msg.GetCopy())
	r := c.newRestore(ctx, l, msg)
	note := &copyDone{incarnation: c.incarnation}
	supervise.Job(ctx, c.life, r.run, func(result *messages.CopyFoundBlocksResult, err error) any {
		if result == nil { // the copy panicked
			result = &messages.CopyFoundBlocksResult{Copy: l.number}
		}
		if note.result = result; err != nil {
			result.Detail = err.Error()
		}
		return note
	})
}

func (c *copier) onCopyDone(ctx actor.Context, msg *copyDone) {
	if msg.incarnation == c.incarnation { // otherwise CopierReady has ended the copy
		ctx.Send(ctx.Parent(), msg.result)
	}
}

// newRestore prepares a copy, and its gate if steps may wait for its parts.
func (c *copier) newRestore(ctx actor.Context, l *lookup, msg *messages.CopyFoundBlocks) restore {
	runtime, root, parent := supervise.RuntimeOf(ctx.ActorSystem()), ctx.ActorSystem().Root, ctx.Parent()
	r := restore{lookup: l, to: c.up, bulk: c.Bulk, blocks: msg.GetBlocks(), copied: c.OnCopied, root: root,
		runtime: runtime, timeout: msg.GetWithin().AsDuration()}
	if !msg.GetGate() {
		r.layers = r.newLayerRestore(1, func(int) {})
		return r
	}
	began, parts := runtime.Now(), 0
	r.layers = r.newLayerRestore(int(msg.GetParts()), func(arrived int) {
		root.Send(parent, &messages.FoundBlocksPart{Copy: l.number, Arrived: uint32(arrived), Parts: uint32(parts),
			Elapsed: durationpb.New(runtime.Now().Sub(began))})
	})
	parts = r.layers.Parts()
	c.Gate(l.number, &timedGate{layers: r.layers, runtime: runtime, left: kv.GateTimeout})
	return r
}
