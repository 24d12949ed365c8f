package deployment

import (
	"context"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/backend"
	core "troupe/core/deployment"
	"troupe/engine"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Name string
	Node string // name of this node
	Term uint64 // of the leadership; replicas refuse commands of older terms
	// Members returns the current members of the cluster. Changes arrive as MembersChanged.
	Members func() *messages.MembersChanged
	// Replicas returns the replicas group of a member, GPU one of its gpu actors.
	Replicas func(m *messages.Member) *actor.PID
	GPU      func(m *messages.Member, gpu string) *actor.PID
	Router   *actor.PID // of this node; announces the deployment's status
	Inspect  func(kind backend.Kind, path string) (engine.ModelInfo, error)
	// Record stores the digests that the first replica found, unless digests are stored already or
	// there was a later models.deploy.
	Record func(ctx context.Context, name string, deploy uint64, weights, revision string) error
	// StoreLevel stores the level of the replicas, if the revision of the stored spec is still the given one.
	StoreLevel func(ctx context.Context, name string, revision uint64, level messages.Level, why string) error
	// OnWake is called when requests have woken the deployment, and OnAwake when its first replica serves after
	// that, with the time from the wake. They must not block, and may be nil.
	OnWake  func(model string)
	OnAwake func(model string, took time.Duration)
	// Publish publishes life-cycle events; it must not block.
	Publish func(kind, subject, detail string)
	Log     zerolog.Logger
}

// Props returns the props of a deployment.
func Props(cfg Config) *actor.Props {
	if cfg.OnWake == nil {
		cfg.OnWake = func(string) {}
	}
	if cfg.OnAwake == nil {
		cfg.OnAwake = func(string, time.Duration) {}
	}
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &deployment{Config: cfg, incarnation: incarnation}
	})
}

const tickInterval = time.Second

// deployment is the actor. Its machine decides what it does.
type deployment struct {
	Config
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	machine   *core.Deployment
	members   map[string]*messages.Member          // live members by name
	spec      *messages.DeploymentSpec             // nil until the group has sent it
	revision  uint64                               // of the stored spec
	model     *model                               // nil until inspected
	reports   map[core.Ref]*messages.ReplicaStatus // last report by actor, for the status
	published *published                           // last status sent to the router
	wake      wake                                 // the last one; zero: none, or a replica has served since
}

// tick and preemptTimer are messages to self. removed is a message to the group.
type (
	tick         struct{ incarnation uint64 }
	preemptTimer struct {
		incarnation uint64
		replica     string
	}
	removed struct {
		name string
		term uint64
	}
)

func (d *deployment) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		d.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		d.onStopping(ctx)
	case *tick:
		d.onTick(ctx, msg)
	case *messages.ApplyDeployment:
		d.onApply(ctx, msg)
	case *messages.RemoveDeployment:
		d.onRemove(ctx, msg)
	case *messages.MembersChanged:
		d.onMembers(ctx, msg)
	case *messages.ListReplicasResult:
		d.onReplicaList(ctx, msg)
	case *inspected:
		d.onInspected(ctx, msg)
	case *messages.GpuStatus:
		d.handle(ctx, core.GPUReport{
			At:          core.Location{Node: msg.GetNode(), GPU: msg.GetName()},
			Quarantined: msg.GetState() == messages.GpuState_GPU_STATE_QUARANTINED,
		})
	case *preemptTimer:
		d.onPreemptTimer(ctx, msg)
	case *messages.StartReplicaResult:
		d.onReplicaStarted(ctx, msg)
	case *messages.ReplicaChanged:
		d.onReplicaStatus(ctx, msg.GetStatus(), msg.GetFailure())
	case *messages.ReplicaStatus:
		d.onReplicaStatus(ctx, msg, msg.GetFailure())
	case *messages.ReplicaDrained:
		d.handle(ctx, core.Drained{Replica: msg.GetReplica(), Departures: countsOf(msg.GetDepartures())})
	case *messages.MigrateSequencesResult:
		replica, _, _ := strings.Cut(msg.GetRequestId(), "/")
		d.handle(ctx, core.Migrated{Replica: replica, Request: msg.GetRequestId()})
	case *messages.SequencesSaved:
		d.handle(ctx, core.Saved{Replica: msg.GetReplica(), Blocks: int(msg.GetBlocks()), Detail: msg.GetDetail()})
	case *messages.StopReplicaResult:
		d.onReplicaStopped(ctx, msg)
	case *messages.WakeModel:
		d.handle(ctx, core.Wanted{
			Node: msg.GetNode(), Waiting: int(msg.GetWaiting()), Wakes: int(msg.GetWakes()), Stored: msg.GetRevision(),
			Oldest: msg.GetOldest().AsDuration(),
		})
	case *messages.PlacementRefused:
		d.onPlacementRefused(ctx, msg)
	case *levelStored:
		d.onLevelStored(ctx, msg)
	case *recorded:
		d.onRecorded(ctx, msg)
	case *actor.Terminated:
		d.onTerminated(ctx, msg)
	case *actor.DeadLetterResponse: // the next tick repeats the command
	case *messages.GetDeployment:
		ctx.Respond(d.status())
	default:
		supervise.Unknown(ctx, "deployment")
	}
}

// handle gives an event to the machine and carries out the effects.
func (d *deployment) handle(ctx actor.Context, e core.Event) {
	d.perform(ctx, d.machine.Handle(e, supervise.Now(ctx)))
}

func (d *deployment) onStarted(ctx actor.Context) {
	d.lifetime, d.cancel = context.WithCancel(context.Background())
	d.machine = core.New(d.Name, d.Node)
	d.reports = make(map[core.Ref]*messages.ReplicaStatus)
	d.onMembers(ctx, d.Members())
	d.onTick(ctx, &tick{d.incarnation})
}

func (d *deployment) onStopping(ctx actor.Context) {
	d.cancel()
	for _, replica := range d.machine.Actors() {
		ctx.Unwatch(pidOf(replica))
	}
	status := &messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: d.Name}}
	ctx.Send(d.Router, &messages.RouteDeployment{Status: status, Withdrawn: true})
}

func (d *deployment) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != d.incarnation {
		return
	}
	supervise.After(ctx, tickInterval, msg)
	d.published = nil // the router may have restarted
	d.handle(ctx, core.Tick{})
}

func (d *deployment) onApply(ctx actor.Context, msg *messages.ApplyDeployment) {
	d.noteWake(ctx, msg.GetSpec(), d.revision)
	d.spec, d.revision = msg.GetSpec(), msg.GetRevision()
	d.handle(ctx, core.Apply{Spec: specOf(d.spec), Stored: d.revision, Need: d.model.need(d.spec)})
}

func (d *deployment) onRemove(ctx actor.Context, msg *messages.RemoveDeployment) {
	if d.spec == nil {
		d.spec = &messages.DeploymentSpec{Name: d.Name}
	}
	d.handle(ctx, core.Remove{Drop: msg.GetDropWeights()})
}

func (d *deployment) onMembers(ctx actor.Context, msg *messages.MembersChanged) {
	d.members = make(map[string]*messages.Member)
	for _, m := range msg.GetMembers() {
		d.members[m.GetName()] = m
	}
	d.handle(ctx, core.Members{Members: membersOf(msg), Departed: departedOf(msg)})
}

func (d *deployment) onPreemptTimer(ctx actor.Context, msg *preemptTimer) {
	if msg.incarnation == d.incarnation {
		d.handle(ctx, core.PreemptTimer{Replica: msg.replica})
	}
}
