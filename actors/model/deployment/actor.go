package deployment

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/hbm"
	"troupe/engine"
	"troupe/messages"
)

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Name string
	Node string // where it lives
	Term uint64 // of its reign
	// Members returns who is in the cluster now. Changes come as MembersChanged.
	Members func() *messages.MembersChanged
	// Replicas and GPU name the actors of a member.
	Replicas func(m *messages.Member) *actor.PID
	GPU      func(m *messages.Member, gpu string) *actor.PID
	Router   *actor.PID // of this node: tells all others how the deployment is
	Inspect  func(path string) (engine.ModelInfo, error)
	// Record stores the digests of the files that the first replica has found, unless there are some, or a
	// later models.deploy.
	Record func(ctx context.Context, name string, deploy uint64, weights, revision string) error
	// Publish announces life-cycle events; it must not block.
	Publish func(kind, subject, detail string)
	Log     zerolog.Logger
}

// Props returns the recipe for a deployment.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &deployment{Config: cfg, incarnation: incarnation}
	})
}

const (
	tickEvery   = time.Second
	drainWithin = 30 * time.Second
	placeWithin = 500 * time.Millisecond // how long to wait for the GPUs' answers
	knowWithin  = 3 * time.Second        // how long to wait for a node to say what it has
	avoidFor    = 10 * time.Second       // a GPU that refused
	restFor     = 30 * time.Second       // a GPU on which a replica ended twice within as long
)

type deployment struct {
	Config
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc

	spec      *messages.DeploymentSpec // nil until the group has answered
	revision  uint64
	removing  bool
	nodes     map[string]*node              // name -> a living member
	replicas  map[string]*copyOf            // name -> replica
	strays    map[place]string              // replicas that came back under a name given away: to be stopped. Value: their GPU
	homes     map[string]place              // replica name -> where its lease still is after it died
	ended     map[string]time.Time          // replica name -> when it last did by itself
	lost      map[string]bool               // names of replicas that went with their node, and may come back with it
	facts     *engine.ModelInfo             // of the model at spec.path; nil until inspected
	failure   *messages.Refused             // why the last attempt failed; nil once one succeeded
	avoid     map[place]time.Time           // GPU -> until when
	sick      map[place]bool                // GPUs that are quarantined, as they last said
	told      *messages.DeploymentStatus    // what the router was told last
	ready     bool                          // as told last
	noRoom    bool                          // for one more replica, as of the last tick
	crowded   bool                          // failure says so
	survey    map[place]*messages.GpuStatus // answers, while it is weighed whether a replica is better placed elsewhere; else nil
	calm      time.Time                     // until when no replica is moved to a better place
	recording bool                          // the digests of the first replica are being stored
	deposed   bool                          // somebody has heard of a later reign
}

// node is a living member as the deployment sees it.
type node struct {
	member   *messages.Member
	draining bool // by the operator's word
	known    bool // it has said which replicas it has
	since    time.Time
}

// open reports whether replicas may be placed there.
func (n *node) open() bool {
	return n != nil && !n.draining && n.member.GetState() == messages.MemberState_MEMBER_STATE_UP
}

// place is a replica or a GPU of a node.
type place struct{ node, name string }

// copyOf is one replica as the deployment sees it.
type copyOf struct {
	spec       *messages.ReplicaSpec
	phase      phase
	since      time.Time // of the phase
	pid        *actor.PID
	status     *messages.ReplicaStatus
	gpus       map[place]*messages.GpuStatus // answers, while placing
	moving     bool                          // its sequences are being moved to another replica
	adopted    bool                          // an earlier reign or incarnation started it
	holds      hbm.Need                      // of its GPU, as that said last; zero: not known
	leaves     string                        // why, once it drains
	substitute string                        // the replica that was started for this one to move to; see moves
}

type phase int

const (
	placing phase = iota
	starting
	loading
	up
	draining
	stopping
)

// tick, placeNow, inspected and removed are notes; removed is to the group, the others to self. See also weighNow.
type (
	tick     struct{ incarnation uint64 }
	placeNow struct {
		incarnation uint64
		replica     string
	}
	inspected struct {
		incarnation uint64
		path        string
		facts       engine.ModelInfo
		err         error
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
		d.onEnding(ctx)
	case *tick:
		d.onTick(ctx, msg)
	case *messages.ApplyDeployment:
		d.onApply(ctx, msg)
	case *messages.RemoveDeployment:
		d.onRemove(ctx)
	case *messages.MembersChanged:
		d.onMembers(ctx, msg)
	case *messages.ListReplicasResult:
		d.onReplicas(ctx, msg)
	case *inspected:
		d.onInspected(ctx, msg)
	case *messages.GpuStatus:
		d.onGPU(ctx, msg)
	case *placeNow:
		d.onPlaceNow(ctx, msg)
	case *weighNow:
		d.onWeighNow(ctx, msg)
	case *messages.StartReplicaResult:
		d.onReplicaStarted(ctx, msg)
	case *messages.ReplicaChanged:
		d.onChanged(ctx, msg.GetStatus(), msg.GetFailure())
	case *messages.ReplicaStatus:
		d.onChanged(ctx, msg, nil)
	case *messages.ReplicaDrained:
		d.onDrained(ctx, msg)
	case *messages.MigrateSequencesResult:
		d.onMigrated(msg)
	case *messages.StopReplicaResult:
		d.onStopped(ctx, msg)
	case *recorded:
		d.onRecorded(msg)
	case *actor.Terminated:
		d.onTerminated(ctx, msg)
	case *messages.GetDeployment:
		ctx.Respond(d.status())
	}
}

func (d *deployment) onStarted(ctx actor.Context) {
	d.life, d.end = context.WithCancel(context.Background())
	d.nodes = make(map[string]*node)
	d.replicas = make(map[string]*copyOf)
	d.strays = make(map[place]string)
	d.homes = make(map[string]place)
	d.ended = make(map[string]time.Time)
	d.avoid = make(map[place]time.Time)
	d.sick = make(map[place]bool)
	d.lost = make(map[string]bool)
	d.onMembers(ctx, d.Members())
	d.onTick(ctx, &tick{d.incarnation})
}

func (d *deployment) onEnding(ctx actor.Context) {
	d.end()
	for _, r := range d.replicas {
		if r.pid != nil {
			ctx.Unwatch(r.pid)
		}
	}
	ctx.Send(d.Router, &messages.RouteDeployment{Status: &messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: d.Name}}, Withdrawn: true})
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
	for _, n := range d.nodes {
		d.acquaint(ctx, n)
	}
	for _, r := range d.replicas {
		d.push(ctx, r)
	}
	d.stopStrays(ctx)
	d.visit(ctx)
	d.noRoom = false
	d.told = nil // a router that crashed has forgotten
	d.reconcile(ctx)
	d.rebalance(ctx)
}

func (d *deployment) onApply(ctx actor.Context, msg *messages.ApplyDeployment) {
	if d.facts != nil && d.spec.GetPath() != msg.GetSpec().GetPath() {
		d.facts = nil
	}
	d.spec, d.revision, d.removing, d.failure, d.noRoom = msg.GetSpec(), msg.GetRevision(), false, nil, false
	clear(d.avoid)
	d.rest(calmFor)
	for _, r := range d.replicas {
		d.judge(ctx, r)
	}
	d.reconcile(ctx)
}

func (d *deployment) onRemove(ctx actor.Context) {
	d.removing = true
	if d.spec == nil {
		d.spec = &messages.DeploymentSpec{Name: d.Name}
	}
	d.reconcile(ctx)
}

func pidOf(ref *messages.ActorRef) *actor.PID { return actor.NewPID(ref.GetAddress(), ref.GetId()) }

func refOf(pid *actor.PID) *messages.ActorRef {
	return &messages.ActorRef{Address: pid.GetAddress(), Id: pid.GetId()}
}
