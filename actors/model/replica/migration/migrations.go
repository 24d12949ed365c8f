package migration

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica/migration/transfer"
	"troupe/actors/model/replica/wire"
	"troupe/core/backend"
	"troupe/core/batch"
	"troupe/core/migrate"
	"troupe/core/replica"
	"troupe/messages"
)

// Blocks gives access to the KV blocks of the replica while steps run.
type Blocks interface {
	transfer.Blocks
	Layout() string // blocks of equal layouts are interchangeable
	Close() error
}

// Config is fixed for an incarnation of the replica.
type Config struct {
	Spec         *messages.ReplicaSpec
	Incarnation  uint64
	FirstAttempt uint64 // higher than the number of any attempt of earlier incarnations
	Machine      *replica.Machine
	Sequences    wire.Sequences                     // sequences of the replica
	Bulk         transfer.Bulk                      // nil: sequences are not migrated
	Transfers    func(transfer.Config) *actor.Props // returns the props of the actor that moves blocks
	OpenBlocks   func() (Blocks, error)
	Kind         backend.Kind
	Can          backend.Set
	// Note returns a message in which this incarnation of the replica sends a note to itself.
	Note func(note any) any
	Log  zerolog.Logger
}

// Host is the replica.
type Host interface {
	Perform(ctx actor.Context, effects []replica.Effect)
	// Advance starts the next step, if it can start.
	Advance(ctx actor.Context)
	// Moved forgets the blocks to restore for a sequence that is now on another replica.
	Moved(ctx actor.Context, id string)
	// Restoring reports whether a sequence is held for the lookup or restore of its blocks.
	Restoring(id string) bool
	// AddAdapter records the adapter of a sequence that may arrive; nil: none.
	AddAdapter(ctx actor.Context, spec *messages.AdapterSpec)
	// Request converts a sequence to a request of the scheduler.
	Request(ctx actor.Context, id string, seq *messages.SequenceSpec, output []uint32) batch.Request
}

// Migrations handles the sequences that migrate from and to a replica. The replica calls its
// methods with the messages that it receives.
type Migrations struct {
	Config
	host   Host
	source *migrate.Source
	target *migrate.Target

	blocks    Blocks     // nil: sequences are not migrated
	transfers *actor.PID // nil: sequences are not migrated
	life      uint64     // incarnation of the transfers actor
	leaving   map[migrate.Key]*leaving
	arriving  map[migrate.Key]*arriving
}

// leaving has the contents of the messages about an attempt to migrate a sequence from here.
type leaving struct {
	command proto.Message // last message to the target; repeated until it is answered
	ticket  *messages.BulkTicket
}

// arriving has the contents of the messages about an attempt to migrate a sequence to here.
type arriving struct {
	offer       *messages.OfferSequence
	resume      *messages.ResumeSequence // nil before the source asked to resume the sequence
	reservation *batch.Reservation       // nil: the sequence has no blocks
	ticket      *messages.BulkTicket     // ticket of the transfer into the reserved blocks
}

// Notes, which the replica sends to itself, and answers of the transfers actor.
type (
	resendTick     struct{ key migrate.Key }
	expireTick     struct{ key migrate.Key }
	transfersReady struct{ incarnation uint64 }
	sendDone       struct {
		key migrate.Key
		err error
	}
	sinkOpened struct {
		key    migrate.Key
		ticket *messages.BulkTicket
		err    error
	}
	sinkHeard struct {
		key migrate.Key
		at  time.Time
	}
	sinkClosed struct {
		key      migrate.Key
		complete bool
	}
)

// New returns migrations that refuse everything until Open.
func New(cfg Config, host Host, self *actor.PID) *Migrations {
	return &Migrations{Config: cfg, host: host,
		source: migrate.NewSource(migrate.SourceConfig{
			Name: cfg.Spec.GetName(), Self: actorOf(self), BlockTokens: int(cfg.Spec.GetBlockTokens()),
			StepTokens: int(cfg.Spec.GetStepTokens()), FirstAttempt: cfg.FirstAttempt,
		}),
		target:  migrate.NewTarget(cfg.Spec.GetName()),
		leaving: make(map[migrate.Key]*leaving), arriving: make(map[migrate.Key]*arriving),
	}
}

// Open allows migrations. It starts the transfers actor if there is a data plane.
func (m *Migrations) Open(ctx actor.Context) {
	if m.Bulk == nil {
		m.source.Open(0)
		m.target.Open(migrate.Shape{})
		return
	}
	open, err := m.OpenBlocks()
	if err != nil {
		panic(err)
	}
	m.blocks, m.life = open, 1
	m.transfers, err = ctx.SpawnNamed(m.Transfers(transfer.Config{Bulk: m.Bulk, Blocks: open,
		Ready: func(transfers uint64) any { return m.Note(transfersReady{transfers}) }}), "transfers")
	if err != nil {
		panic(err)
	}
	m.source.Open(open.BlockBytes())
	m.target.Open(migrate.Shape{Model: m.Spec.GetModel(), Layout: open.Layout(),
		BlockTokens: int(m.Spec.GetBlockTokens()), BlockBytes: open.BlockBytes()})
}

// TransfersPID returns the actor that moves blocks; nil: sequences are not migrated.
func (m *Migrations) TransfersPID() *actor.PID { return m.transfers }

// Migrating reports whether a sequence is migrating to another replica.
func (m *Migrations) Migrating(id string) bool { return m.source.Migrating(id) }

// Postponed returns the number of offers that wait for a step to end or for an adapter.
func (m *Migrations) Postponed() int { return len(m.target.Postponed()) }
