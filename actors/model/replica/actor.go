package replica

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/batch"
	"troupe/core/kv"
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
	// Engine returns the props of the child that runs steps over a lease. For gate, see
	// EngineConfig.Gate.
	Engine func(lease string, gate func(number uint64) (engine.Gate, error)) *actor.Props
	// Adapters returns the props of the child that keeps adapters on the device of a lease. Nil:
	// sequences with adapters are refused.
	Adapters func(lease string) *actor.Props
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the props of a replica.
func Props(cfg Config) *actor.Props {
	var incarnation, loads uint64
	var revision string
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &replica{Config: cfg, incarnation: incarnation, loads: &loads, confirmedRevision: &revision,
			gates: gates{all: make(map[uint64]engine.Gate)}}
	}, actor.WithSupervisor(cfg.Strategy))
}

const (
	requestRetryAfter = time.Second            // after an unanswered request of the startup
	reportEvery       = 100 * time.Millisecond // minimum time between two load reports to the deployment
	checkFolderEvery  = 5 * time.Second        // between two checks of the model folder
	retryAfter        = 20 * time.Millisecond  // RetryAfter of refusals that end soon
)

type replica struct {
	Config
	incarnation uint64
	loads       *uint64 // loads of the weights, without adoptions; over all incarnations

	confirmedRevision *string // by the deployment; shared by all incarnations

	state         messages.ReplicaState
	failure       *messages.Refused     // in state FAILED
	foundRevision string                // in state FAILED: the revision in the folder, if it is not the requested one
	model         *messages.ModelLoaded // nil until the gpu actor answers
	engine        *actor.PID            // nil until the blocks are adopted
	ready         bool                  // EngineReady was received
	stopping      bool                  // the actor is stopping or restarting, and the engine with it

	batch         *batch.Scheduler // nil until the blocks are adopted
	pool          *kv.Pool
	sequences     map[string]*activeSequence // by request id
	step          *inflightStep              // nil: no step is in flight
	isolated      []batch.Entry              // entries of a step that crashed too often, to be run one by one
	steps         uint64
	lastStepAt    time.Time // start of the last step
	shrink        *shrink   // nil: the KV memory is not shrinking
	totals        totals
	lastNotFinite string // model or adapter of the last sequence with non-finite logits, and when

	folderFault    string     // of the model folder; empty: none
	drainRequester *actor.PID // receives ReplicaDrained
	reportPending  bool       // a reportTick is pending

	announcer *kv.Announcer // block changes that routers have not received; nil until the blocks are adopted
	announced time.Time     // last announcement to the router

	life       context.Context // cancelled when this incarnation ends
	cancel     context.CancelFunc
	blocks     Blocks // nil: sequences are not migrated
	context    int    // context limit in tokens
	migrations migrations

	lastAttempt uint64 // start of this incarnation, in nanoseconds; makes ids unique over all incarnations

	gates   gates    // of restores that steps wait for
	kvTiers *kvTiers // nil: no tier below HBM and no remote tier
	kvPins  kvPins

	lora *adapterState // nil: the replica takes no adapters
}

// activeSequence is a sequence and the session it belongs to.
type activeSequence struct {
	session    *actor.PID
	spec       *messages.SequenceSpec
	logprobs   []*messages.TokenLogprobs // of the output from index outputBase on, if requested
	outputBase int                       // tokens of output that the session submitted
	cached     uint32                    // prompt tokens found in KV blocks
}

// inflightStep is a step that the engine runs.
type inflightStep struct {
	entries []batch.Entry
	command *messages.RunStep
	prompt  uint64 // number of prompt tokens
	crashes int
	began   time.Time
}

type totals struct {
	tokensIn, tokensOut, tokensCached, preemptions, migratedIn, migratedOut, notFinite uint64
}

// retryLoad and reportTick are messages to self.
type (
	retryLoad  struct{ incarnation uint64 }
	reportTick struct{ incarnation uint64 }
)

func (r *replica) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		r.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		r.onStop(ctx)
	case *retryLoad:
		r.onRetryLoad(ctx, msg)
	case *messages.LoadModelResult:
		r.onLoaded(ctx, msg)
	case *messages.AdoptBlocksResult:
		r.onBlocksAdopted(ctx, msg)
	case *checkFolder:
		r.onCheckFolder(ctx, msg)
	case *folderChecked:
		r.onFolderChecked(ctx, msg)
	case *messages.ConfirmRevision:
		r.onConfirm(ctx, msg)
	case *messages.EngineReady:
		r.onEngineReady(ctx)
	case *actor.Terminated:
		r.onTerminated(ctx, msg)
	case *actor.DeadLetterResponse:
		r.onDeadLetter(ctx, msg)
	case *messages.SubmitSequence:
		r.onSubmit(ctx, msg)
	case *messages.CancelSequence:
		r.onCancel(ctx, msg)
	case *messages.GetSequence:
		r.onGetSequence(ctx, msg)
	case *messages.RunStepResult:
		r.onStepResult(ctx, msg)
	case *messages.DrainReplica:
		r.onDrain(ctx)
	case *messages.GetReplica:
		r.onGetReplica(ctx)
	case *reportTick:
		r.onReportTick(ctx, msg)
	case *announceTick:
		r.onAnnounceTick(ctx, msg)
	default:
		if !r.receiveTiers(ctx) && !r.receiveKVCommands(ctx) && !r.receiveAdapters(ctx) {
			r.receiveResize(ctx)
		}
	}
}

func (r *replica) onStarted(ctx actor.Context) {
	r.lastAttempt = uint64(supervise.Now(ctx).UnixNano())
	r.sequences, r.migrations = make(map[string]*activeSequence), r.newMigrations(ctx)
	r.life, r.cancel = context.WithCancel(context.Background())
	if r.Router != nil {
		supervise.After(ctx, announceEvery, &announceTick{r.incarnation})
	}
	r.setState(ctx, messages.ReplicaState_REPLICA_STATE_LOADING)
	r.requestNext(ctx)
}

// onStop interrupts all sequences. Requests that arrive while the engine stops are refused.
func (r *replica) onStop(ctx actor.Context) {
	r.stopping, r.ready, r.state = true, false, messages.ReplicaState_REPLICA_STATE_LOADING
	r.abortMigrations(ctx)
	r.closeTiers()
	for id := range r.sequences {
		r.interrupt(ctx, id, refusal(messages.Reason_REASON_NOT_READY,
			"replica "+r.Spec.GetName()+" is stopping or restarting", retryAfter))
	}
	clear(r.sequences)
}

// onTerminated crashes the replica if its engine or its adapter pool has stopped for good: too many
// crashes, or a lost device. The replica's supervisor then decides. Any other actor is a replica
// that was watched for a migration.
func (r *replica) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	switch {
	case r.stopping:
	case r.engine != nil && msg.GetWho().Equal(r.engine):
		panic("replica: the engine of " + r.Spec.GetName() + " has stopped: too many crashes, or a lost device")
	case r.lora != nil && msg.GetWho().Equal(r.lora.pool):
		panic("replica: the adapter pool of " + r.Spec.GetName() + " has stopped: too many crashes")
	case r.migrations.transfers != nil && msg.GetWho().Equal(r.migrations.transfers):
		panic("replica: the transfers of " + r.Spec.GetName() + " have stopped: too many crashes")
	default:
		r.onPeerLost(ctx, msg.GetWho())
	}
}

// onDeadLetter drops the sequences of a session that no longer exists.
func (r *replica) onDeadLetter(ctx actor.Context, msg *actor.DeadLetterResponse) {
	for id, c := range r.sequences {
		if c.session.Equal(msg.GetTarget()) {
			r.drop(ctx, id, "its session has ended")
		}
	}
	r.onPeerLost(ctx, msg.GetTarget())
}
