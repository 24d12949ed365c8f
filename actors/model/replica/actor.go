package replica

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"

	"troupe/actors/model/replica/migration"
	"troupe/actors/model/replica/tiering"
	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	core "troupe/core/replica"
	"troupe/engine"
	"troupe/messages"
)

// Props returns the props of a replica.
func Props(cfg Config) *actor.Props {
	_, can := backendOf(cfg.Spec)
	cfg = cfg.limit(can)
	m := wire.Config(cfg.Spec)
	kept := kept{standby: m.Standby}
	m.Router, m.CheckFolder, m.Watch = cfg.Router != nil, cfg.CheckFolder != nil, cfg.Watch
	if cfg.Adapters == nil {
		m.MaxAdapters = 0
	}
	return supervise.Props(func() actor.Actor {
		kept.incarnation++
		m.Incarnation, m.Confirmed = kept.incarnation, kept.revision
		m.Standby, m.Canary = kept.standby, kept.canary
		return &replica{
			Config: cfg, incarnation: kept.incarnation, kept: &kept, machine: core.New(m),
			reply: wire.NewReply(kept.incarnation, ""),
		}
	}, actor.WithSupervisor(cfg.Strategy))
}

// kept is the state shared by all incarnations of a replica.
type kept struct {
	incarnation uint64
	loads       uint64 // number of loads of the weights, without adoptions
	revision    string // confirmed by the deployment
	standby     bool   // the wanted level is standby, else active
	started     uint64 // start of the last incarnation; see replica.started
	canary      core.Canary
}

type replica struct {
	Config
	incarnation uint64
	kept        *kept
	machine     *core.Machine
	life        context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	model      *messages.ModelLoaded // nil until the GPU actor answers
	reply      wire.Reply            // messages to sessions
	failure    *messages.Refused     // set in state Failed
	engine     *actor.PID            // nil until the blocks are adopted
	engineLife uint64                // incarnation of the engine, from its last EngineReady

	sequences      wire.Sequences
	command        *messages.RunStep // last step sent to the engine
	drainRequester *actor.PID        // receives ReplicaDrained

	adapters        *actor.PID                       // adapter pool; nil until it is started
	poolIncarnation uint64                           // 0: the pool is not ready
	adapterSpecs    map[string]*messages.AdapterSpec // by adapter key; specs of all requested adapters
	ahead           *messages.PrefetchAdapters       // last command of the planner
	adapterCounts   *messages.AdapterCounts          // last counts reported by the pool; nil before the first report

	started    uint64 // start of this incarnation, in nanoseconds; makes ids unique over all incarnations
	migrations *migration.Migrations
	tiering    *tiering.Tiering
	gates      engine.Gates // gates of the restores that steps wait for
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
	tieringNote struct {
		incarnation uint64
		note        any
	}
	folderChecked struct {
		incarnation uint64
		folder      core.Folder
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
		r.onEngineReady(ctx, msg)
	case *messages.ConfirmRevision:
		r.Perform(ctx, r.machine.ConfirmRevision(msg.GetRevisionDigest(), supervise.Now(ctx)))
	case *folderChecked:
		r.onFolderChecked(ctx, msg)
	case *messages.DrainReplica:
		r.onDrain(ctx)
	case *messages.SetReplicaLevel:
		r.onSetLevel(ctx, msg)
	case *messages.SaveSequences:
		r.Perform(ctx, r.machine.Save(supervise.Now(ctx)))
	case *messages.BlocksMoved:
		r.onBlocksSaved(ctx, msg)
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

	case *messages.TurnGranted:
		r.onTurnGranted(ctx, msg)
	case *messages.RecallTurn:
		r.onRecallTurn(ctx, msg)
	case *messages.ReplicaOverdue:
		r.onOverdue(msg)

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
	case *messages.PrefetchAdapters:
		r.onPrefetch(ctx, msg)
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

	case *messages.CopierReady:
		r.tiering.OnCopierReady(ctx, msg)
	case *messages.LookUpBlocksResult:
		r.tiering.OnLookedUp(ctx, msg)
	case *messages.FoundBlocksPart:
		r.tiering.OnPartArrived(ctx, msg)
	case *messages.CopyFoundBlocksResult:
		r.tiering.OnCopied(ctx, msg)
	case *messages.CopyBlocksDownResult:
		r.tiering.OnCopiedDown(ctx, msg)
	case *messages.OffloadBlocks:
		r.tiering.OnOffloadBlocks(ctx, msg)
	case *messages.RestoreBlocks:
		r.tiering.OnRestoreBlocks(ctx, msg)
	case *messages.FlushBlocks:
		r.tiering.OnFlushBlocks(ctx, msg)
	case *messages.LeaseBlocks:
		r.tiering.OnLeaseBlocks(ctx, msg)
	case *messages.ReleaseBlocks:
		r.tiering.OnReleaseBlocks(ctx, msg)
	case *tieringNote:
		if msg.incarnation == r.incarnation {
			r.tiering.OnNote(ctx, msg.note)
		}
	default:
		supervise.Unknown(ctx, "replica")
	}
}
