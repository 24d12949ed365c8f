package tiering

import (
	"context"
	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/exporter"
	"troupe/core/kv"
	"troupe/core/replica"
	"troupe/engine"
	"troupe/engine/kvstore"
	"troupe/messages"
)

// Tiers configures the KV tiers below HBM.
type Tiers struct {
	Lower []Tier // fastest first; empty: no offload
	// Watermark is the share of HBM blocks above which blocks are offloaded ahead of need; default
	// kv.DefaultWatermark.
	Watermark float64
	IdleSteps uint64 // number of steps after which an unreferenced block is offloaded; default 100
	// Restore decides between restoring blocks and recomputing them; default kv.RestoreAuto.
	// kv.RestoreAlways also waits longer for lookups and restores.
	Restore kv.RestorePolicy
	// Remote is the tier that fetches blocks from other replicas and nodes. If it is nil, no blocks
	// are fetched. RemoteAvailable reports whether there are other replicas or nodes.
	Remote          *actor.PID
	RemoteAvailable func() bool
	// PartBytes is the minimum size of the parts in which a block is restored. Prefill can start
	// once the first parts have arrived. Default 256 KiB.
	PartBytes int
	// OnCopied is called for each copy of a block between HBM and a tier, including failed copies.
	// It may be nil.
	OnCopied kvstore.Report
}

// Tier is a KV tier below HBM.
type Tier struct {
	Name  string // such as "dram"
	Actor *actor.PID
	Store kvstore.Store
}

// CopierSpec is the configuration of the copier that depends on its replica.
type CopierSpec struct {
	Handle string // of the lease
	// Incarnation is the number of the copier's first incarnation. It is higher than that of any
	// copier that the replica had before.
	Incarnation uint64
	// Gate receives the gates that engine steps pass, with their numbers.
	Gate func(number uint64, gate engine.Gate)
}

// Blocks gives access to the KV blocks of the replica's lease while steps run; see engine.Blocks.
type Blocks interface {
	kvstore.LayeredBlocks
	Layout() string // blocks of equal layouts are interchangeable
	Close() error
}

// Config is fixed for an incarnation of the replica.
type Config struct {
	Tiers
	Spec        *messages.ReplicaSpec
	Incarnation uint64
	Started     uint64          // start of this incarnation, in nanoseconds; makes ids unique over all incarnations
	Life        context.Context // ends with the incarnation
	Machine     *replica.Machine
	Plane       exporter.DataPlane // nil: blocks are not exchanged with other replicas
	OpenBlocks  func() (Blocks, error)
	Copier      func(CopierSpec) *actor.Props
	// Pins returns the model's pinned prefixes and a version that changes when they do. If Pins is
	// nil, no prefixes are pinned.
	Pins func() (version uint64, all []*messages.PinnedPrefix)
	// Note returns a message in which this incarnation of the replica sends a note to itself.
	Note func(note any) any
	Log  zerolog.Logger
}

// Host is the replica.
type Host interface {
	Perform(ctx actor.Context, effects []replica.Effect)
	// Advance starts the next step, if it can start.
	Advance(ctx actor.Context)
	// Migrating reports whether a sequence is migrating to another replica.
	Migrating(id string) bool
}
