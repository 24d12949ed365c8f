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
	Node string // that runs this actor
	Term uint64 // of the leadership; replicas refuse commands of older terms
	// Members returns the current members of the cluster. Changes arrive as MembersChanged.
	Members func() *messages.MembersChanged
	// Replicas returns the replicas group of a member, GPU one of its gpu actors.
	Replicas func(m *messages.Member) *actor.PID
	GPU      func(m *messages.Member, gpu string) *actor.PID
	Router   *actor.PID // of this node; announces the deployment's status
	Inspect  func(path string) (engine.ModelInfo, error)
	// Record stores the digests that the first replica found, unless digests are stored already or
	// there was a later models.deploy.
	Record func(ctx context.Context, name string, deploy uint64, weights, revision string) error
	// Publish publishes life-cycle events; it must not block.
	Publish func(kind, subject, detail string)
	Log     zerolog.Logger
}

// Props returns the props of a deployment.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &deployment{Config: cfg, incarnation: incarnation}
	})
}

const (
	tickInterval      = time.Second
	drainTimeout      = 30 * time.Second
	gpuReplyTimeout   = 500 * time.Millisecond // for GpuStatus from all GPUs
	nodeReplyTimeout  = 3 * time.Second        // for a node's list of replicas
	avoidAfterRefusal = 10 * time.Second       // of a GPU that refused a replica
	avoidAfterCrash   = 30 * time.Second       // of a GPU on which a replica exited twice within this time
)

type deployment struct {
	Config
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc

	spec          *messages.DeploymentSpec // nil until the group has sent it
	revision      uint64
	removing      bool
	nodes         map[string]*node                 // live members by name
	replicas      map[string]*replicaState         // by name
	orphans       map[location]string              // replicas to stop, whose names were reused -> GPU
	lastPlacement map[string]location              // exited replica -> GPU that still has its lease
	lastExit      map[string]replicaExit           // replica -> its last exit
	reservedNames map[string]bool                  // names of replicas on lost nodes; they may come back
	facts         *engine.ModelInfo                // of the model at spec.path; nil until inspected
	failure       *messages.Refused                // of the last attempt; nil after a success
	avoidUntil    map[location]time.Time           // by GPU
	quarantined   map[location]bool                // by GPU, as last reported
	published     *messages.DeploymentStatus       // last status sent to the router
	wasReady      bool                             // as last published
	noRoom        bool                             // for one more replica, as of the last tick
	outOfMemory   bool                             // failure is a lack of memory
	gpuSurvey     map[location]*messages.GpuStatus // replies while a move is considered; else nil
	stableUntil   time.Time                        // earliest time of the next move
	recording     bool                             // the first replica's digests are being stored
	fenced        bool                             // a later term has begun
}

// node is the deployment's view of a live member.
type node struct {
	member   *messages.Member
	draining bool // by operator request
	reported bool // its list of replicas has arrived
	since    time.Time
}

// schedulable reports whether replicas may be placed on the node.
func (n *node) schedulable() bool {
	return n != nil && !n.draining && n.member.GetState() == messages.MemberState_MEMBER_STATE_UP
}

// location identifies a GPU or a replica on a node.
type location struct{ node, name string }

// replicaState is the deployment's view of one replica.
type replicaState struct {
	spec       *messages.ReplicaSpec
	phase      phase
	since      time.Time // start of the phase
	pid        *actor.PID
	status     *messages.ReplicaStatus
	gpus       map[location]*messages.GpuStatus // replies while placing
	migrating  bool                             // a MigrateSequences is in flight
	adopted    bool                             // started by an earlier term or incarnation
	leased     hbm.Need                         // on its GPU, as last reported; zero: unknown
	drainCause string                           // reason while it drains
	substitute string                           // name of the replica that replaces it; see hasSubstitute
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

// tick, placementTimeout and inspected are notes to self, and so is surveyTimeout. removed is a
// note to the group.
type (
	tick             struct{ incarnation uint64 }
	placementTimeout struct {
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
		d.onStopping(ctx)
	case *tick:
		d.onTick(ctx, msg)
	case *messages.ApplyDeployment:
		d.onApply(ctx, msg)
	case *messages.RemoveDeployment:
		d.onRemove(ctx)
	case *messages.MembersChanged:
		d.onMembers(ctx, msg)
	case *messages.ListReplicasResult:
		d.onReplicaList(ctx, msg)
	case *inspected:
		d.onInspected(ctx, msg)
	case *messages.GpuStatus:
		d.onGPUStatus(ctx, msg)
	case *placementTimeout:
		d.onPlacementTimeout(ctx, msg)
	case *surveyTimeout:
		d.onSurveyTimeout(ctx, msg)
	case *messages.StartReplicaResult:
		d.onReplicaStarted(ctx, msg)
	case *messages.ReplicaChanged:
		d.onReplicaStatus(ctx, msg.GetStatus(), msg.GetFailure())
	case *messages.ReplicaStatus:
		d.onReplicaStatus(ctx, msg, nil)
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
	d.lifetime, d.cancel = context.WithCancel(context.Background())
	d.nodes = make(map[string]*node)
	d.replicas = make(map[string]*replicaState)
	d.orphans = make(map[location]string)
	d.lastPlacement = make(map[string]location)
	d.lastExit = make(map[string]replicaExit)
	d.avoidUntil = make(map[location]time.Time)
	d.quarantined = make(map[location]bool)
	d.reservedNames = make(map[string]bool)
	d.onMembers(ctx, d.Members())
	d.onTick(ctx, &tick{d.incarnation})
}

func (d *deployment) onStopping(ctx actor.Context) {
	d.cancel()
	for _, r := range d.replicas {
		if r.pid != nil {
			ctx.Unwatch(r.pid)
		}
	}
	status := &messages.DeploymentStatus{Spec: &messages.DeploymentSpec{Name: d.Name}}
	ctx.Send(d.Router, &messages.RouteDeployment{Status: status, Withdrawn: true})
}

// onTick repeats the commands that have not been answered.
func (d *deployment) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != d.incarnation {
		return
	}
	supervise.After(ctx, tickInterval, msg)
	if d.spec == nil {
		ctx.Request(ctx.Parent(), &messages.GetDeploymentSpec{Name: d.Name})
	}
	for _, n := range d.nodes {
		d.queryNode(ctx, n)
	}
	for _, r := range d.replicas {
		d.sendCommand(ctx, r)
	}
	d.stopOrphans(ctx)
	d.pollGPUs(ctx)
	d.noRoom = false
	d.published = nil // the router may have restarted
	d.reconcile(ctx)
	d.rebalance(ctx)
}

func (d *deployment) onApply(ctx actor.Context, msg *messages.ApplyDeployment) {
	if d.facts != nil && d.spec.GetPath() != msg.GetSpec().GetPath() {
		d.facts = nil
	}
	d.spec, d.revision, d.removing, d.failure, d.noRoom = msg.GetSpec(), msg.GetRevision(), false, nil, false
	clear(d.avoidUntil)
	d.extendStable(stableFor)
	for _, r := range d.replicas {
		d.checkRevision(ctx, r)
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
