package copier

import (
	"context"
	"hash"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/supervise"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// Blocks gives access to the KV blocks of the replica's lease while steps run; see engine.Blocks.
type Blocks interface {
	kvstore.LayeredBlocks
	// Close waits for the copies in flight. Later copies fail.
	Close() error
}

// Bulk is the receiving side of the node's data plane.
type Bulk interface {
	// ExpectSealed opens a transfer for receiving. It calls put with each chunk that arrives with
	// the right seal, from any goroutine, until Drop.
	ExpectSealed(chunkBytes int, chunks uint32, seal func(index uint32, bytes int) hash.Hash64,
		put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	Drop(*messages.BulkTicket)
}

// Tier is a KV tier below HBM.
type Tier struct {
	Name  string // such as "dram"
	Actor *actor.PID
	Store kvstore.Store
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Incarnation uint64 // of the first incarnation
	OpenBlocks  func() (Blocks, error)
	Tiers       []Tier
	Remote      *actor.PID // the remote tier; nil: none
	Bulk        Bulk       // nil: no blocks are fetched from remote holders
	// Gate receives the gate of each copy that has one, and the number of the copy. Steps may pass
	// the gate until the result of the copy is applied.
	Gate func(number uint64, gate engine.Gate)
	// OnCopied is called for each copy of a block, including failed ones. It may be nil.
	OnCopied kvstore.Report
}

// Props returns the props of a replica's copier.
func Props(cfg Config) *actor.Props {
	if cfg.OnCopied == nil {
		cfg.OnCopied = func(string, string, int, kvstore.Move) {}
	}
	next := cfg.Incarnation
	return supervise.Props(func() actor.Actor {
		incarnation := next
		next++
		return &copier{Config: cfg, incarnation: incarnation}
	})
}

type copier struct {
	Config
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	up          Blocks             // destination of copies to HBM; nil before Started
	down        Blocks             // source of copies to tiers; nil before Started
	lookups     map[uint64]*lookup // by number; in progress, or found and neither copied nor released
}

// lookupDone and copyDone are messages to self.
type (
	lookupDone struct {
		incarnation uint64
		lookup      *lookup
	}
	copyDone struct {
		incarnation uint64
		result      *messages.CopyFoundBlocksResult
	}
)

func (c *copier) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		c.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		c.onStop(ctx)
	case *actor.Stopped:
	case *messages.LookUpBlocks:
		c.onLookUp(ctx, msg)
	case *lookupDone:
		c.onLookupDone(ctx, msg)
	case *messages.ReleaseFoundBlocks:
		c.onRelease(ctx, msg)
	case *messages.CopyFoundBlocks:
		c.onCopy(ctx, msg)
	case *copyDone:
		c.onCopyDone(ctx, msg)
	case *messages.CopyBlocksDown:
		c.onCopyDown(ctx, msg)
	case *downDone:
		c.onDownDone(ctx, msg)
	default:
		supervise.Unknown(ctx, "copier")
	}
}
