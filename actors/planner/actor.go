package planner

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/cost"
	core "troupe/core/planner"
	"troupe/core/schedule"
	"troupe/messages"
)

// Role is the name of the leader's lease.
const Role = "planner"

// Config is fixed for the life of the actor and shared by its restarts. Its functions must not block, apart
// from Acquire and Assign.
type Config struct {
	Node string // name of this node
	// Leader returns the node that holds the lease, and its term; empty: none.
	Leader func() (node string, term uint64)
	// Acquire acquires the lease if it is free.
	Acquire func(ctx context.Context) error
	Router  *actor.PID // router of this node
	Members func() *messages.MembersChanged
	// Stored returns the stored deployments, by name.
	Stored func() []*messages.ApplyDeployment
	// Pause returns the stored pause; nil: none.
	Pause func() *messages.PlannerPause
	// Planner, GPU, HostCache and Deployments return actors of a node.
	Planner     func(m *messages.Member) *actor.PID
	GPU         func(m *messages.Member, gpu string) *actor.PID
	HostCache   func(m *messages.Member) *actor.PID
	Deployments func(m *messages.Member) *actor.PID
	// Assign stores the replicas of a deployment, if its revision is still the given one, and returns the new
	// revision. Its error is ErrConflict if it has another one.
	Assign  func(ctx context.Context, a Assigned) (revision uint64, err error)
	Publish func(kind, subject, detail string) // it must not block
	OnPlan  func(r *core.Record)               // called after each plan; nil: nothing
	Options schedule.Options
	// Adapters are those that replicas fetch ahead. If it is empty, replicas load adapters with their first request.
	Adapters Adapters
	// Costs returns the costs of a deployment's steps on a kind of device, if they are known; weights are its
	// bytes. It may block. nil: they are unknown.
	Costs func(device string, d *messages.DeploymentSpec, weights int64) (cost.Steps, bool)
	Log   zerolog.Logger
}

// Props returns the props of a planner.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &planner{Config: cfg, incarnation: incarnation, machine: core.New(cfg.Options),
			asked: make(map[string]asked), uses: make(map[string]used)}
	})
}

const (
	tickInterval = time.Second
	soonInterval = 100 * time.Millisecond
	// restFactor bounds the time for observations that follow each other quickly to a quarter, since requests wait
	// while the router answers.
	restFactor = 4
)

type planner struct {
	Config
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	machine     *core.Machine
	asked       map[string]asked // by request
	asks        uint64
	ticks       uint64                        // number of the next tick
	next        time.Time                     // of the next tick
	last        time.Time                     // of the last one
	viewTook    time.Duration                 // of the last observation, until it was converted
	view        *messages.ClusterView         // of the last observation; it is not changed
	paths       map[string]string             // folders of models, by the last observation
	usesAt      time.Time                     // last report of this node
	uses        map[string]used               // of adapters, by node
	pools       map[string]*messages.ActorRef // replicas that take adapters, by the last observation
}

// tick is a message to self. Only the one with the latest number counts.
type tick struct{ incarnation, number uint64 }

func (p *planner) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		p.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.cancel()
	case *tick:
		p.onTick(ctx, msg)
	case *messages.ClusterChanged:
		p.onClusterChanged(ctx)
	case *messages.DeviceChanged:
		p.onDeviceChanged(ctx, msg)
	case *acquired:
		p.onAcquired(ctx, msg)
	case *viewed:
		p.onViewed(ctx, msg)
	case *surveyed:
		p.onSurveyed(ctx, msg)
	case *made:
		p.onMade(ctx, msg)
	case *stored:
		p.onStored(ctx, msg)
	case *messages.AdaptersUsed:
		p.onAdaptersUsed(ctx, msg)
	case *messages.GetPlanner:
		ctx.Respond(p.status(supervise.Now(ctx)))
	case *messages.GetPlan:
		p.onGetPlan(ctx, msg)
	case *messages.GetPlanHistory:
		p.onGetHistory(ctx, msg)
	case *messages.ExplainModel:
		p.onExplain(ctx, msg)
	default:
		supervise.Unknown(ctx, "planner")
	}
}

func (p *planner) onStarted(ctx actor.Context) {
	p.lifetime, p.cancel = context.WithCancel(context.Background())
	p.onTick(ctx, &tick{p.incarnation, p.ticks})
}

func (p *planner) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != p.incarnation || msg.number != p.ticks {
		return
	}
	p.reportUses(ctx)
	p.perform(ctx, p.machine.Tick(p.at(ctx)))
	now := supervise.Now(ctx)
	interval := tickInterval
	if leader, _ := p.Leader(); leader == "" || p.machine.Soon(now) {
		interval = p.soon()
	}
	p.last = now
	p.tickAt(ctx, now.Add(interval))
}

// soon returns the time between two ticks that follow each other quickly.
func (p *planner) soon() time.Duration {
	return min(max(soonInterval, restFactor*p.viewTook), tickInterval)
}

// tickAt moves the next tick to a time.
func (p *planner) tickAt(ctx actor.Context, at time.Time) {
	p.ticks++
	p.next = at
	supervise.After(ctx, at.Sub(supervise.Now(ctx)), &tick{p.incarnation, p.ticks})
}

// onClusterChanged lets the machine look at the cluster soon, if this node leads.
func (p *planner) onClusterChanged(ctx actor.Context) {
	if leader, _ := p.Leader(); leader == p.Node {
		p.machine.Changed(supervise.Now(ctx))
		p.tickSoon(ctx)
	}
}

// onDeviceChanged handles a change of a device, or passes it on to the planner that leads.
func (p *planner) onDeviceChanged(ctx actor.Context, msg *messages.DeviceChanged) {
	switch leader, _ := p.Leader(); {
	case leader == p.Node:
		p.machine.DeviceChanged(deviceName(msg.GetNode(), msg.GetGpu()), supervise.Now(ctx))
		p.tickSoon(ctx)
	case msg.GetNode() == p.Node:
		p.sendTo(ctx, leader, msg)
	}
}

// sendTo sends a message to the planner of a node.
func (p *planner) sendTo(ctx actor.Context, node string, msg any) {
	for _, m := range p.Members().GetMembers() {
		if m.GetName() == node {
			ctx.Send(p.Planner(m), msg)
		}
	}
}

// tickSoon moves the next tick forward, to p.soon after the last one.
func (p *planner) tickSoon(ctx actor.Context) {
	now := supervise.Now(ctx)
	if at := p.last.Add(p.soon()); at.Before(p.next) {
		p.tickAt(ctx, later(at, now))
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// at returns the present time, leadership and pause.
func (p *planner) at(ctx actor.Context) core.At {
	at := core.At{Time: supervise.Now(ctx), Paused: p.Pause().GetPaused()}
	if leader, term := p.Leader(); leader == p.Node {
		at.Term = term
	}
	return at
}

// perform carries out the machine's effects, in order.
func (p *planner) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.Acquire:
			p.acquire(ctx)
		case core.Observe:
			p.collect(ctx, e)
		case core.Survey:
			p.survey(ctx, e)
		case core.MakePlan:
			p.makePlan(ctx, e)
		case core.Store:
			p.store(ctx, e)
		case core.Refuse:
			p.refuse(ctx, e)
		case core.Prefetch:
			p.prefetch(ctx, e)
		case core.Ended:
			p.onEnded(e.Record)
		case core.Answer:
			p.answer(ctx, e)
		case core.Forget:
			for _, question := range e.Asks {
				delete(p.asked, question.ID)
			}
		case core.Ignored:
			p.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Str("why", e.Why).
				Msg("event ignored by planner")
		default:
			panic(fmt.Sprintf("planner: unknown effect %T", effect))
		}
	}
}

// refuse sends a refusal to the group of the node that leads the deployment.
func (p *planner) refuse(ctx actor.Context, e core.Refuse) {
	for _, m := range p.Members().GetMembers() {
		if m.GetName() == e.Leader {
			ctx.Send(p.Deployments(m), refusalOf(e, p.paths[e.Name]))
		}
	}
}
