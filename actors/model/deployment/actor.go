package deployment

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/engine"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Name     string
	Replicas *actor.PID            // the group that starts them
	GPUs     map[string]*actor.PID // by name
	Inspect  func(path string) (engine.Facts, error)
	// Publish announces life-cycle events; it must not block.
	Publish func(kind, subject, detail string)
	Log     zerolog.Logger
}

// Props returns the recipe for a deployment.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return actor.PropsFromProducer(func() actor.Actor {
		incarnation++
		return &deployment{Config: cfg, incarnation: incarnation}
	})
}

const (
	tickEvery   = time.Second
	drainWithin = 30 * time.Second
	placeWithin = 500 * time.Millisecond // how long to wait for the GPUs' answers
	avoidFor    = 10 * time.Second       // a GPU that refused
	retryAfter  = 50 * time.Millisecond  // when a session may ask for a route again
	maxAskers   = 4096
)

type deployment struct {
	Config
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc

	spec     *messages.DeploymentSpec // nil until the group has answered
	revision uint64
	removing bool
	known    bool                 // the replicas group has answered
	replicas map[string]*copyOf   // name -> replica
	homes    map[string]string    // replica name -> GPU that holds its lease after it died
	facts    *engine.Facts        // of the model at spec.path; nil until inspected
	failure  *messages.Refused    // why the last attempt failed; nil once one succeeded
	avoid    map[string]time.Time // GPU -> until when
	serving  int                  // replicas that served when last looked
	askers   []*actor.PID         // who asked for the status before the spec was known; bounded
}

// copyOf is one replica as the deployment sees it.
type copyOf struct {
	spec   *messages.ReplicaSpec
	phase  phase
	since  time.Time // of the phase
	pid    *actor.PID
	status *messages.ReplicaStatus
	routed int                            // sequences sent there since the last status
	gpus   map[string]*messages.GpuStatus // answers, while placing
}

type phase int

const (
	placing phase = iota
	starting
	loading
	up
	draining
	stopping
	unloading
)

// tick, placeNow and inspected are notes to self.
type (
	tick     struct{ incarnation uint64 }
	placeNow struct {
		incarnation uint64
		replica     string
	}
	inspected struct {
		incarnation uint64
		path        string
		facts       engine.Facts
		err         error
	}
)

func (d *deployment) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		d.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		d.end()
	case *tick:
		d.onTick(ctx, msg)
	case *messages.ApplyDeployment:
		d.onApply(ctx, msg)
	case *messages.RemoveDeployment:
		d.onRemove(ctx)
	case *messages.ListReplicasResult:
		d.onReplicas(ctx, msg)
	case *inspected:
		d.onInspected(ctx, msg)
	case *messages.GpuStatus:
		d.onGPU(ctx, msg)
	case *placeNow:
		d.onPlaceNow(ctx, msg)
	case *messages.StartReplicaResult:
		d.onReplicaStarted(ctx, msg)
	case *messages.ReplicaChanged:
		d.onChanged(ctx, msg.GetStatus(), msg.GetFailure())
	case *messages.ReplicaStatus:
		d.onChanged(ctx, msg, nil)
	case *messages.ReplicaDrained:
		d.move(ctx, msg.GetReplica(), draining, stopping)
	case *messages.StopReplicaResult:
		d.move(ctx, msg.GetStopped().GetReplica(), stopping, unloading)
	case *messages.UnloadModelResult:
		d.onUnloaded(ctx, msg)
	case *actor.Terminated:
		d.onTerminated(ctx, msg)
	case *messages.RouteSequence:
		ctx.Respond(d.route(msg))
	case *messages.GetDeployment:
		d.onGet(ctx)
	}
}

func (d *deployment) onStarted(ctx actor.Context) {
	d.life, d.end = context.WithCancel(context.Background())
	d.replicas = make(map[string]*copyOf)
	d.homes = make(map[string]string)
	d.avoid = make(map[string]time.Time)
	d.onTick(ctx, &tick{d.incarnation})
}

// onTick says again what has not been answered.
func (d *deployment) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != d.incarnation {
		return
	}
	supervise.After(ctx, tickEvery, msg)
	if d.spec == nil {
		ctx.Request(ctx.Parent(), &messages.GetDesired{Name: d.Name})
	}
	if !d.known {
		ctx.Request(d.Replicas, &messages.ListReplicas{RequestId: d.Name, Model: d.Name})
	}
	for _, r := range d.replicas {
		d.push(ctx, r)
	}
	d.reconcile(ctx)
}

func (d *deployment) onApply(ctx actor.Context, msg *messages.ApplyDeployment) {
	if d.facts != nil && d.spec.GetPath() != msg.GetSpec().GetPath() {
		d.facts = nil
	}
	d.spec, d.revision, d.removing, d.failure = msg.GetSpec(), msg.GetRevision(), false, nil
	clear(d.avoid)
	d.answer(ctx)
	d.reconcile(ctx)
}

func (d *deployment) onRemove(ctx actor.Context) {
	d.removing = true
	if d.spec == nil {
		d.spec = &messages.DeploymentSpec{Name: d.Name}
	}
	d.answer(ctx)
	d.reconcile(ctx)
}

// onGet answers with the status; before the group has said what this deployment is to be, a moment later.
func (d *deployment) onGet(ctx actor.Context) {
	if d.spec == nil && len(d.askers) < maxAskers {
		d.askers = append(d.askers, ctx.Sender())
		return
	}
	ctx.Respond(d.status())
}

func (d *deployment) answer(ctx actor.Context) {
	for _, who := range d.askers {
		ctx.Send(who, d.status())
	}
	d.askers = nil
}

// onReplicas: what an earlier incarnation started is adopted.
func (d *deployment) onReplicas(ctx actor.Context, msg *messages.ListReplicasResult) {
	if d.known {
		return
	}
	d.known = true
	for _, r := range msg.GetReplicas() {
		c := &copyOf{spec: r.GetSpec(), phase: loading, since: time.Now(), pid: pidOf(r.GetActor())}
		d.replicas[r.GetReplica()] = c
		ctx.Watch(c.pid)
		d.push(ctx, c)
	}
	d.reconcile(ctx)
}

func pidOf(ref *messages.ActorRef) *actor.PID { return actor.NewPID(ref.GetAddress(), ref.GetId()) }
