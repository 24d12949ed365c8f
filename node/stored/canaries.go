package stored

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/cluster/store"
	"troupe/core/verify"
	"troupe/engine/residency"
	"troupe/messages"
)

// canaryRetry is the delay before the next attempt to store records that could not be stored.
const canaryRetry = 5 * time.Second

// CanaryStore is the part of the store that holds the records of canaries.
type CanaryStore interface {
	CreateCanary(ctx context.Context, name string, r *messages.CanaryRecord) error
	ReplaceCanary(ctx context.Context, name string, r *messages.CanaryRecord) error
	WatchCanaries(ctx context.Context, apply func(store.CanaryChange)) error
}

// Canaries makes the records of a node agree with those in the store. It is safe for concurrent use.
type Canaries struct {
	Records *residency.Canaries
	Store   CanaryStore
	Publish func(kind, subject, detail string)
	Runtime supervise.Runtime
	Log     zerolog.Logger

	mu       sync.Mutex
	ctx      context.Context // of the watch; nil: none runs
	flushing bool
	again    bool // there are effects for the next flush
}

// Watch returns a watch that follows the stored records, and stores those of this node meanwhile.
func (c *Canaries) Watch() Watch {
	return Watch{Of: "records of canaries", Run: func(ctx context.Context, synced func()) error {
		c.mu.Lock()
		c.ctx = ctx
		c.mu.Unlock()
		c.Records.OnEffects(c.flush)
		return c.Store.WatchCanaries(ctx, func(change store.CanaryChange) {
			if change.Synced {
				c.Records.Follow((*verify.Records).Retry)
				synced()
				return
			}
			c.Records.Follow(func(r *verify.Records) []verify.Effect { return apply(r, change) })
		})
	}}
}

// apply applies a change in the store to the records.
func apply(r *verify.Records, c store.CanaryChange) []verify.Effect {
	if c.Err != nil {
		return r.Unreadable(c.Name, c.Err.Error())
	}
	if c.Record == nil {
		return r.Deleted(c.Name)
	}
	record := recordOf(c.Record)
	switch {
	case !record.Valid():
		return r.Unreadable(c.Name, "it has no tokens")
	case record.Key.Name() != c.Name:
		return r.Unreadable(c.Name, "it is the record "+record.Key.Name())
	}
	return r.Stored(c.Name, record)
}

// flush carries out effects in a task of its own, in order. It does not block.
func (c *Canaries) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.flushing {
		c.again = true
		return
	}
	c.flushing = true
	ctx := c.ctx
	c.Runtime.Go(func() { c.perform(ctx) })
}

func (c *Canaries) perform(ctx context.Context) {
	failed := false
	for {
		for _, effect := range c.Records.TakeEffects() {
			if err := c.carryOut(ctx, effect); err != nil && ctx.Err() == nil {
				failed = true
				c.Log.Warn().Err(err).Msg("record of a canary not stored; trying again")
			}
		}
		c.mu.Lock()
		if !c.again {
			c.flushing = false
			c.mu.Unlock()
			break
		}
		c.again = false
		c.mu.Unlock()
	}
	if failed {
		c.Runtime.AfterFunc(canaryRetry, func() {
			if ctx.Err() == nil {
				c.Records.Follow((*verify.Records).Retry)
			}
		})
	}
}

func (c *Canaries) carryOut(ctx context.Context, effect verify.Effect) error {
	switch e := effect.(type) {
	case verify.Store:
		err := c.Store.CreateCanary(ctx, e.Name, messageOf(e.Record))
		if errors.Is(err, store.ErrConflict) {
			return nil // the watch delivers the one that is stored
		}
		return err
	case verify.Replace:
		c.Log.Warn().Str("record", e.Name).Msg("replacing a record of a canary that cannot be read")
		return c.Store.ReplaceCanary(ctx, e.Name, messageOf(e.Record))
	case verify.Unreadable:
		c.Log.Warn().Str("record", e.Name).Str("why", e.Why).
			Msg("record of a canary cannot be read; replacing it by that of the next load")
	case verify.Conflict:
		c.Log.Error().Str("record", e.Name).Str("known", e.Known.By).Str("stored", e.Stored.By).
			Msg("two nodes have recorded different tokens; the stored ones count")
		c.Publish("weights.disagree", e.Name, fmt.Sprintf("%s: tokens %v, and stored, by %s: %v; the stored ones count",
			e.Known.By, e.Known.Tokens, e.Stored.By, e.Stored.Tokens))
	default:
		panic(fmt.Sprintf("stored: unknown effect %T", effect))
	}
	return nil
}

func recordOf(m *messages.CanaryRecord) verify.Record {
	return verify.Record{
		Key: verify.Key{
			Revision: m.GetRevisionDigest(), Layout: m.GetLayout(), Device: m.GetDevice(), Engine: m.GetEngine(),
		},
		Prompt: m.GetPrompt(), Tokens: m.GetTokens(), By: m.GetRecordedBy(),
	}
}

func messageOf(r verify.Record) *messages.CanaryRecord {
	return &messages.CanaryRecord{
		RevisionDigest: r.Key.Revision, Layout: r.Key.Layout, Device: r.Key.Device, Engine: r.Key.Engine,
		Prompt: r.Prompt, Tokens: r.Tokens, RecordedBy: r.By,
	}
}
