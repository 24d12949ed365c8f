package planner

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	core "troupe/core/planner"
	"troupe/messages"
)

// Role is the name of the leader's lease.
const Role = "planner"

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	// IsLeader reports whether this node holds the lease. It must not block.
	IsLeader func() bool
	// Acquire acquires the lease if it is free.
	Acquire func(ctx context.Context) error
	Router  *actor.PID // router of this node
	// Scale stores the number of replicas of a deployment, if its revision is still the given one.
	Scale func(ctx context.Context, name string, revision uint64, replicas uint32, why string) error
	Log   zerolog.Logger
}

// Props returns the props of a planner.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &planner{Config: cfg, incarnation: incarnation, machine: core.New()}
	})
}

const (
	tickInterval = time.Second
	writeTimeout = 2 * time.Second
)

type planner struct {
	Config
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	machine     *core.Machine
}

// tick and writeDone are messages to self.
type (
	tick      struct{ incarnation uint64 }
	writeDone struct {
		incarnation uint64
		err         error
	}
)

func (p *planner) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		p.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		p.cancel()
	case *tick:
		p.onTick(ctx, msg)
	case *messages.ClusterView:
		p.onView(ctx, msg)
	case *writeDone:
		p.onWriteDone(ctx, msg)
	default:
		supervise.Unknown(ctx, "planner")
	}
}

func (p *planner) onStarted(ctx actor.Context) {
	p.lifetime, p.cancel = context.WithCancel(context.Background())
	p.onTick(ctx, &tick{p.incarnation})
}

func (p *planner) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != p.incarnation {
		return
	}
	supervise.After(ctx, tickInterval, msg)
	p.perform(ctx, p.machine.Tick(p.IsLeader(), supervise.Now(ctx)))
}

func (p *planner) onView(ctx actor.Context, msg *messages.ClusterView) {
	p.perform(ctx, p.machine.View(deploymentsOf(msg), p.IsLeader(), supervise.Now(ctx)))
}

func (p *planner) onWriteDone(ctx actor.Context, msg *writeDone) {
	if msg.incarnation != p.incarnation {
		return
	}
	if msg.err != nil { // the next tick retries with a new observation
		p.Log.Debug().Err(msg.err).Msg("planner write failed")
	}
	p.perform(ctx, p.machine.WriteEnd(supervise.Now(ctx)))
}

// perform carries out the machine's effects, in order.
func (p *planner) perform(ctx actor.Context, effects []core.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case core.Acquire:
			p.write(ctx, p.Acquire)
		case core.Observe:
			ctx.Request(p.Router, &messages.GetClusterView{})
		case core.Scale:
			p.Log.Info().Str("model", e.Name).Int("from", e.From).Int("to", e.To).Str("why", e.Why).Msg("scaled")
			scale := p.Scale
			p.write(ctx, func(c context.Context) error { return scale(c, e.Name, e.Revision, uint32(e.To), e.Why) })
		case core.Ignored:
			p.Log.Debug().Stringer("state", e.State).Stringer("event", e.Event).Str("why", e.Why).
				Msg("event ignored by planner")
		default:
			panic(fmt.Sprintf("planner: unknown effect %T", effect))
		}
	}
}

// write starts a job that writes to the store.
func (p *planner) write(ctx actor.Context, do func(context.Context) error) {
	incarnation, rt := p.incarnation, supervise.RuntimeOf(ctx.ActorSystem())
	supervise.Job(ctx, p.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := rt.WithTimeout(life, writeTimeout)
			defer cancel()
			return struct{}{}, do(c)
		},
		func(_ struct{}, err error) any { return &writeDone{incarnation, err} })
}
