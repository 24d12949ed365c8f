package replica

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/model/replica/migration"
	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
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
	Router     *actor.PID // receives the same, and the changed blocks; nil: no router
	Bulk       Bulk       // nil: sequences are not migrated
	Tiers      Tiers      // the KV tiers below HBM
	// Pins returns the model's pinned prefixes and a version that changes with them. Nil: none are
	// pinned.
	Pins func() (version uint64, all []*messages.PinnedPrefix)
	// OpenBlocks opens the KV blocks of a lease for copies.
	OpenBlocks func(lease string) (Blocks, error)
	// CheckFolder returns why the files of a revision could not be loaded again from the replica's
	// folder, or "" if they could. It may block. Nil: the folder is not checked.
	CheckFolder func(revision string) string
	// Engine returns the props of the child that runs steps over a lease; see package stepper.
	Engine func(lease string, gate func(number uint64) (engine.Gate, error)) *actor.Props
	// Copier returns the props of the child that copies KV blocks from tiers and remote holders. It
	// is called only if there are Tiers.
	Copier func(CopierSpec) *actor.Props
	// Adapters returns the props of the child that keeps adapters on the device of a lease. Nil:
	// sequences with adapters are refused.
	Adapters func(lease string) *actor.Props
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the props of a replica.
func Props(cfg Config) *actor.Props {
	var kept kept
	m := wire.Config(cfg.Spec)
	m.Router, m.CheckFolder = cfg.Router != nil, cfg.CheckFolder != nil
	if cfg.Adapters == nil {
		m.MaxAdapters = 0
	}
	return supervise.Props(func() actor.Actor {
		kept.incarnation++
		m.Incarnation, m.Confirmed = kept.incarnation, kept.revision
		return &replica{Config: cfg, incarnation: kept.incarnation, kept: &kept, machine: core.New(m),
			gates: gates{all: make(map[uint64]engine.Gate)}}
	}, actor.WithSupervisor(cfg.Strategy))
}

// kept is what all incarnations of a replica share.
type kept struct {
	incarnation uint64
	loads       uint64 // of the weights, without adoptions
	revision    string // confirmed by the deployment
}

type replica struct {
	Config
	incarnation uint64
	kept        *kept
	machine     *core.Machine
	life        context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	model   *messages.ModelLoaded // nil until the gpu actor answers
	failure *messages.Refused     // in state Failed
	engine  *actor.PID            // nil until the blocks are adopted
	batch   *batch.Scheduler      // of the machine; nil until the blocks are adopted
	pool    *kv.Pool              // of the machine

	sequences      wire.Sequences
	command        *messages.RunStep // last step
	drainRequester *actor.PID        // receives ReplicaDrained

	adapters        *actor.PID                       // the pool; nil until it is started
	poolIncarnation uint64                           // 0: the pool is not ready
	adapterSpecs    map[string]*messages.AdapterSpec // by key; all requested adapters
	adapterCounts   *messages.AdapterCounts          // last reported by the pool; nil before

	lastAttempt uint64 // start of this incarnation, in nanoseconds; makes ids unique over all incarnations
	migrations  *migration.Migrations

	gates   gates    // of restores that steps wait for
	kvTiers *kvTiers // nil: no tier below HBM and no remote tier
	kvPins  kvPins
}

// Messages to self.
type (
	timerFired struct {
		incarnation uint64
		timer       core.Timer
	}
	migrationNote struct {
		incarnation uint64
		note        any
	}
	folderChecked struct {
		incarnation uint64
		fault       string
	}
)

func (r *replica) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		r.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		r.Perform(ctx, r.machine.Stop())
	case *actor.Stopped:
	case *timerFired:
		r.onTimer(ctx, msg)
	case *actor.Terminated:
		r.onTerminated(ctx, msg)
	case *actor.DeadLetterResponse:
		r.onDeadLetter(ctx, msg)

	case *messages.LoadModelResult:
		r.onLoaded(ctx, msg)
	case *messages.AdoptBlocksResult:
		r.Perform(ctx, r.machine.Adopted(wire.Resident(msg.GetAdopted().GetResident()), supervise.Now(ctx)))
	case *messages.EngineReady:
		r.Perform(ctx, r.machine.EngineReady(supervise.Now(ctx)))
	case *messages.ConfirmRevision:
		r.Perform(ctx, r.machine.ConfirmRevision(msg.GetRevisionDigest(), supervise.Now(ctx)))
	case *folderChecked:
		r.onFolderChecked(ctx, msg)
	case *messages.DrainReplica:
		r.onDrain(ctx)
	case *messages.GetReplica:
		r.onGetReplica(ctx)

	case *messages.SubmitSequence:
		r.onSubmit(ctx, msg)
	case *messages.RunStepResult:
		r.onStepResult(ctx, msg)
	case *messages.CancelSequence:
		r.Perform(ctx, r.machine.Cancel(msg.GetRequestId()))
	case *messages.GetSequence:
		r.onGetSequence(ctx, msg)

	case *messages.ShrinkKV:
		r.Perform(ctx, r.machine.Shrink(msg.GetLease(), int(msg.GetBlocks()), msg.GetAttempt()))
	case *messages.GrowKV:
		r.Perform(ctx, r.machine.Grow(msg.GetLease(), int(msg.GetBlocks())))

	case *messages.LeaseAdaptersResult:
		r.onAdaptersLeased(ctx, msg)
	case *messages.AdaptersReady:
		r.onPoolReady(ctx, msg)
	case *messages.PinAdapterResult:
		r.Perform(ctx, r.machine.PinResult(msg.GetRequestId(), wire.PinRefusal(msg.GetRefused())))
	case *messages.AdaptersChanged:
		r.onAdaptersChanged(ctx, msg)
	case *messages.ApplyAdapter:
		r.onApplyAdapter(ctx, msg)
	case *messages.ForgetAdapter:
		r.Perform(ctx, r.machine.Forget(wire.AdapterOf(msg.GetAdapter())))

	case *messages.MigrateSequences:
		r.migrations.OnMigrate(ctx, msg)
	case *messages.OfferSequence:
		r.migrations.OnOffer(ctx, msg)
	case *messages.OfferSequenceResult:
		r.migrations.OnOffered(ctx, msg)
	case *messages.ResumeSequence:
		r.migrations.OnResume(ctx, msg)
	case *messages.ResumeSequenceResult:
		r.migrations.OnResumed(ctx, msg)
	case *messages.AbandonSequence:
		r.migrations.OnAbandon(ctx, msg)
	case *migrationNote:
		if msg.incarnation == r.incarnation {
			r.migrations.OnNote(ctx, msg.note)
		}
	default:
		if !r.receiveTiers(ctx) && !r.receiveKVCommands(ctx) {
			supervise.Unknown(ctx, "replica")
		}
	}
}
