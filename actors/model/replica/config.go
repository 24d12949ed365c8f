package replica

import (
	"context"
	"hash"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/model/replica/migration/transfer"
	"troupe/actors/model/replica/tiering"
	core "troupe/core/replica"
	"troupe/engine"
	"troupe/messages"
)

// Config configures a replica. It is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Spec       *messages.ReplicaSpec
	GPU        *actor.PID // holds the weights and the KV memory
	HBM        *actor.PID // records which KV blocks hold which hashes
	Deployment *actor.PID // receives every state change
	Router     *actor.PID // receives every state change, and the changed blocks; nil: there is no router
	Bulk       Bulk       // data plane; nil: sequences are not migrated
	Tiers      Tiers      // the KV tiers below HBM
	// Pins returns the model's pinned prefixes and a version that changes when they do. If Pins is
	// nil, no prefixes are pinned.
	Pins func() (version uint64, all []*messages.PinnedPrefix)
	// OpenBlocks opens the KV blocks of the lease of a handle for copying.
	OpenBlocks func(handle string) (Blocks, error)
	// CheckFolder returns whether the files of a revision could be loaded again from the replica's
	// folder. It may block. If it is nil, the folder is not checked.
	CheckFolder func(revision string) core.Folder
	// Engine returns the props of the child that runs steps with the lease of a handle; see package
	// stepper.
	Engine func(handle string, gate func(number uint64) (engine.Gate, error)) *actor.Props
	// Copier returns the props of the child that copies KV blocks from tiers and remote holders. It
	// is called only if there are Tiers.
	Copier func(CopierSpec) *actor.Props
	// Transfers returns the props of the child that moves the KV blocks of migrating sequences. It is called
	// only if there is a data plane.
	Transfers func(transfer.Config) *actor.Props
	// Adapters returns the props of the child that keeps adapters in the memory of the lease of a
	// handle. If Adapters is nil, sequences with adapters are refused.
	Adapters func(handle string) *actor.Props
	// Watch bounds the steps, and sets the interval of canaries.
	Watch core.Watch
	// Publish publishes a life-cycle event. It must not block. It may be nil.
	Publish  func(kind, subject, detail string)
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// The KV tiers below HBM, and what their copies need.
type (
	Tiers      = tiering.Tiers
	Tier       = tiering.Tier
	Blocks     = tiering.Blocks
	CopierSpec = tiering.CopierSpec
)

// Bulk is the node's data plane. A transfer consists of chunks; chunk i of a migration is block i
// of the sequence.
type Bulk interface {
	// Expect opens a transfer for receiving. It calls put with each chunk that arrives, from any
	// goroutine, until Drop.
	Expect(chunkBytes int, chunks uint32, put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	// ExpectSealed is like Expect for chunks that end with a seal: 8 bytes, big-endian, the
	// checksum of the bytes before them. Chunks with a wrong seal are not passed to put.
	ExpectSealed(chunkBytes int, chunks uint32, seal func(index uint32, bytes int) hash.Hash64,
		put func(index uint32, b []byte) error) (*messages.BulkTicket, error)
	Drop(*messages.BulkTicket)
	// Send returns when the receiver has stored all chunks or the context has ended. It may be
	// called more than once with the same ticket.
	Send(ctx context.Context, to *messages.BulkTicket, indices []uint32,
		read func(index uint32, into []byte) (int, error)) error
}
