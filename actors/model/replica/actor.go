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

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Spec       *messages.ReplicaSpec
	GPU        *actor.PID // holds the weights and the KV memory
	HBM        *actor.PID // remembers what is in the blocks
	Deployment *actor.PID // told of every change
	Router     *actor.PID // told likewise, and of the blocks; nil: nobody is
	Bulk       Bulk       // nil: no spec is moved
	Tiers      Tiers      // where blocks go that are not needed now
	// Pins are the prefixes of the model that are to be kept, and a number that changes with them. Nil: none are.
	Pins func() (version uint64, all []*messages.PinnedPrefix)
	// OpenBlocks opens the KV blocks of a lease, to move them.
	OpenBlocks func(lease string) (Blocks, error)
	// CheckFolder says why the files of a confirmedRevision could not be loaded again from the replica's folder; empty: they
	// could. It may block. Nil: nobody looks.
	CheckFolder func(revision string) string
	// Engine is the recipe of the child that runs steps over a lease; gate is of EngineConfig.
	Engine func(lease string, gate func(number uint64) (engine.Gate, error)) *actor.Props
	// Adapters is the recipe of the child that keeps adapterState on the device of a lease; nil: sequences with adapterState are refused.
	Adapters func(lease string) *actor.Props
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the recipe for a replica.
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
	requestRetryAfter = time.Second            // for what was asked at the start and not answered
	reportEvery       = 100 * time.Millisecond // load reports to the deployment, at most
	checkFolderEvery  = 5 * time.Second        // between two looks at the folder
	retryAfter        = 20 * time.Millisecond  // when an interrupted session may ask for a route
)

type replica struct {
	Config
	incarnation uint64
	loads       *uint64 // times the weights were really read; over all incarnations

	confirmedRevision *string // that the deployment has confirmed; over all incarnations

	state         messages.ReplicaState
	failure       *messages.Refused     // with state FAILED
	foundRevision string                // with state FAILED: the confirmedRevision that was found instead
	model         *messages.ModelLoaded // nil until the gpu answered
	engine        *actor.PID            // nil until there are blocks to run on
	ready         bool                  // the engine has said so
	stopping      bool                  // this life is over; the engine ends with it

	batch         *batch.Scheduler // nil until the blocks are adopted
	pool          *kv.Pool
	sequences     map[string]*activeSequence // request id -> who gets the tokens
	step          *inflightStep              // the step in flight
	isolated      []batch.Entry              // entries of a step that crashed twice, to be run one by one
	steps         uint64
	lastStepAt    time.Time // when the last one began
	shrink        *shrink   // nil: the KV memory is not to shrink
	totals        totals
	lastNotFinite string // the last spec that ended with logits that are not finite: of which model or adapter

	folderFault    string     // of the folder; empty: none is known
	drainRequester *actor.PID // who waits for the drain
	reportPending  bool       // a report note is pending

	announcer *kv.Announcer // what routers have not been told of the blocks yet; nil until they are known
	announced time.Time     // to the router, the last time

	life          context.Context // cancelled when this incarnation ends
	cancel        context.CancelFunc
	blocks        Blocks // nil: no spec is moved
	context       int    // tokens of the longest spec
	maxTerm       uint64 // the newest that commanded a move
	lastAttempt   uint64 // of the last outgoing; unique over all lives
	migrations    []*migration
	outgoing      map[string]*outgoing // request id -> on its way to another replica
	incoming      map[string]*incoming // request id -> on its way here, or just arrived
	pendingOffers []pendingOffer       // to be answered at the end of the step in flight

	gates   gates    // of restores that steps wait for
	kvTiers *kvTiers // nil: there is no tier below HBM, and none elsewhere
	kvPins  kvPins

	lora *adapterState // nil: it takes no adapterState
}

// call is one spec and the session that it belongs to.
type activeSequence struct {
	session    *actor.PID
	spec       *messages.SequenceSpec
	logprobs   []*messages.TokenLogprobs // of the output from index base on, where asked for
	outputBase int                       // length of the output that the session brought along
	cached     uint32                    // prompt tokens found in KV blocks
}

// flight is a step that the engine runs.
type inflightStep struct {
	entries []batch.Entry
	command *messages.RunStep
	prompt  uint64 // tokens of prompts
	crashes int
	began   time.Time
}

type totals struct {
	tokensIn, tokensOut, tokensCached, preemptions, migratedIn, migratedOut, notFinite uint64
}

// retryLoad and report are notes to self.
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
	r.sequences, r.outgoing, r.incoming = make(map[string]*activeSequence), make(map[string]*outgoing),
		make(map[string]*incoming)
	r.life, r.cancel = context.WithCancel(context.Background())
	r.lastAttempt = uint64(time.Now().UnixNano())
	if r.Router != nil {
		supervise.After(ctx, announceEvery, &announceTick{r.incarnation})
	}
	r.setState(ctx, messages.ReplicaState_REPLICA_STATE_LOADING)
	r.requestNext(ctx)
}

// onStop tells every session that this life of the replica is over. What still comes, while the engine ends, is refused.
func (r *replica) onStop(ctx actor.Context) {
	r.stopping, r.ready, r.state = true, false, messages.ReplicaState_REPLICA_STATE_LOADING
	r.abortMigrations(ctx)
	r.closeTiers()
	for id := range r.sequences {
		r.interrupt(ctx, id, refusal(messages.Reason_REASON_NOT_READY,
			"replica "+r.Spec.GetName()+" restarts or moves", retryAfter))
	}
	clear(r.sequences)
}

// onTerminated: the engine crashed too often, or its device is lost. So does the replica, for its own supervisor to judge. Else it is another
// replica that was watched.
func (r *replica) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	switch {
	case r.stopping:
	case r.engine != nil && msg.GetWho().Equal(r.engine):
		panic("replica: the engine of " + r.Spec.GetName() + " crashed too often, or its device is lost")
	case r.lora != nil && msg.GetWho().Equal(r.lora.pool):
		panic("replica: the adapter pool of " + r.Spec.GetName() + " crashed too often")
	default:
		r.onPeerLost(ctx, msg.GetWho())
	}
}

// onDeadLetter: whoever a message was for is gone. A spec whose session is gone is of use to nobody.
func (r *replica) onDeadLetter(ctx actor.Context, msg *actor.DeadLetterResponse) {
	for id, c := range r.sequences {
		if c.session.Equal(msg.GetTarget()) {
			r.drop(ctx, id, "its session is gone")
		}
	}
	r.onPeerLost(ctx, msg.GetTarget())
}
