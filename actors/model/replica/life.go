package replica

import (
	"cmp"
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"troupe/actors/model/replica/wire"
	"troupe/actors/supervise"
	core "troupe/core/replica"
	"troupe/messages"
)

func (r *replica) onStarted(ctx actor.Context) {
	r.sequences, r.adapterSpecs = make(wire.Sequences), make(map[string]*messages.AdapterSpec)
	r.life, r.cancel = context.WithCancel(context.Background())
	r.started = max(uint64(supervise.Now(ctx).UnixNano()), r.kept.started+1)
	r.kept.started = r.started
	r.migrations, r.tiering = r.newMigrations(ctx), r.newTiering()
	r.Perform(ctx, r.machine.Start(supervise.Now(ctx)))
}

func (r *replica) onTimer(ctx actor.Context, msg *timerFired) {
	if msg.incarnation == r.incarnation {
		r.Perform(ctx, r.machine.Fired(msg.timer, r.migrations.Postponed(), supervise.Now(ctx)))
	}
}

func (r *replica) onLoaded(ctx actor.Context, msg *messages.LoadModelResult) {
	if refused := msg.GetRefused(); refused != nil {
		r.Perform(ctx, r.machine.LoadRefused(wire.LoadRefusal(refused), msg.GetFoundRevision(), supervise.Now(ctx)))
		return
	}
	r.Perform(ctx, r.machine.Loaded(wire.Model(msg.GetLoaded()), supervise.Now(ctx)))
}

// keepModel keeps the model that the GPU actor loaded, and counts the load if it is fresh and was not
// shared with another replica.
func (r *replica) keepModel(msg *messages.LoadModelResult, fresh bool) {
	if r.model = msg.GetLoaded(); fresh && !r.model.GetShared() {
		r.kept.loads++
	}
	r.reply = wire.NewReply(r.incarnation, r.model.GetRevisionDigest())
}

// open opens the copiers of blocks and starts the engine.
func (r *replica) open(ctx actor.Context) {
	r.migrations.Open(ctx)
	r.tiering.Open(ctx)
	r.engine = spawn(ctx, r.Engine(r.model.GetHandle(), r.gates.Find), "engine")
}

// onEngineReady notes the graphs of the engine. Without them, the replica is only slower.
func (r *replica) onEngineReady(ctx actor.Context, msg *messages.EngineReady) {
	r.engineLife = msg.GetIncarnation()
	if why := msg.GetCaptureFailure(); why != "" {
		r.Log.Warn().Str("error", why).Msg("capturing graphs failed; steps run without")
		r.publish("replica.graphs_failed", "steps run without graphs: "+why)
	}
	if r.model.GetMetrics() != nil {
		r.model = proto.CloneOf(r.model) // others read the metrics that were sent before
		r.model.Metrics.Graph, r.model.Metrics.Graphs = msg.GetCapture(), msg.GetGraphs()
	}
	r.Perform(ctx, r.machine.EngineReady(msg.GetCrashedStep(),
		core.Capture{Graphs: int(msg.GetGraphs()), Took: msg.GetCapture().AsDuration()}, supervise.Now(ctx)))
}

// close ends all copies and migrations. Those of child actors end when the children stop, before
// another incarnation starts.
func (r *replica) close(ctx actor.Context) {
	r.cancel()
	r.migrations.Close(ctx)
	r.tiering.Close()
}

func spawn(ctx actor.Context, props *actor.Props, name string) *actor.PID {
	pid, err := ctx.SpawnNamed(props, name)
	if err != nil {
		panic(err)
	}
	return pid
}

// checkFolder starts a check of the model folder.
func (r *replica) checkFolder(ctx actor.Context, revision string) {
	check, incarnation := r.CheckFolder, r.incarnation
	supervise.Job(ctx, r.life,
		func(context.Context) (core.Folder, error) { return check(revision), nil },
		func(folder core.Folder, _ error) any { return &folderChecked{incarnation, folder} })
}

func (r *replica) onFolderChecked(ctx actor.Context, msg *folderChecked) {
	if msg.incarnation == r.incarnation {
		r.Perform(ctx, r.machine.FolderChecked(msg.folder, supervise.Now(ctx)))
	}
}

func (r *replica) onDrain(ctx actor.Context) {
	r.drainRequester = ctx.Sender()
	r.Perform(ctx, r.machine.Drain(supervise.Now(ctx)))
}

func (r *replica) onSetLevel(ctx actor.Context, msg *messages.SetReplicaLevel) {
	switch msg.GetLevel() {
	case messages.Level_LEVEL_STANDBY:
		r.Perform(ctx, r.machine.Standby(supervise.Now(ctx)))
	case messages.Level_LEVEL_ACTIVE:
		r.Perform(ctx, r.machine.Activate(supervise.Now(ctx)))
	}
}

// onBlocksSaved handles the answer to saveBlocks.
func (r *replica) onBlocksSaved(ctx actor.Context, msg *messages.BlocksMoved) {
	moved, fault := msg.GetMoved(), msg.GetRefused().GetDetail()
	r.Perform(ctx, r.machine.BlocksSaved(int(moved.GetBlocks()), cmp.Or(fault, moved.GetDetail()), supervise.Now(ctx)))
}

// onTerminated crashes the replica if one of its children has stopped for good, because of too many
// crashes or a lost device. The replica's supervisor then decides what happens. Any other actor is
// a replica that was watched for a migration.
func (r *replica) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	switch {
	case r.machine.State() == core.Stopping:
	case r.engine != nil && msg.GetWho().Equal(r.engine):
		panic("replica: the engine of " + r.Spec.GetName() + " has stopped: too many crashes, or a lost device")
	case r.adapters != nil && msg.GetWho().Equal(r.adapters):
		panic("replica: the adapter pool of " + r.Spec.GetName() + " has stopped: too many crashes")
	case r.tiering.CopierPID() != nil && msg.GetWho().Equal(r.tiering.CopierPID()):
		panic("replica: the copier of " + r.Spec.GetName() + " has stopped: too many crashes")
	case r.migrations.TransfersPID() != nil && msg.GetWho().Equal(r.migrations.TransfersPID()):
		panic("replica: the transfers of " + r.Spec.GetName() + " have stopped: too many crashes")
	default:
		r.migrations.OnPeerLost(ctx, msg.GetWho())
	}
}

// onDeadLetter drops the sequences of a session that no longer exists.
func (r *replica) onDeadLetter(ctx actor.Context, msg *actor.DeadLetterResponse) {
	for _, id := range r.sequencesOf(msg.GetTarget()) {
		r.Perform(ctx, r.machine.Lost(id))
	}
	r.migrations.OnPeerLost(ctx, msg.GetTarget())
}
