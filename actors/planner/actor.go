package planner

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/plan"
	"troupe/messages"
)

// Role is the lease of the one that reigns.
const Role = "planner"

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	Node string // its name
	// Reigns reports whether this node holds the lease. It does not block.
	Reigns func() bool
	// Acquire takes the lease where it is free.
	Acquire func(ctx context.Context) error
	Router  *actor.PID // of this node
	// Scale stores how many replicas a deployment is to have, unless it is not at this revision any more.
	Scale func(ctx context.Context, name string, revision uint64, replicas uint32, why string) error
	Log   zerolog.Logger
}

// Props returns the recipe for a planner.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &planner{Config: cfg, incarnation: incarnation}
	})
}

const (
	observeEvery = time.Second
	writeWithin  = 2 * time.Second
)

type planner struct {
	Config
	incarnation uint64
	life        context.Context // cancelled when this incarnation ends
	end         context.CancelFunc
	writing     bool // a lease or a decision is being written
	models      map[string]*watched
}

// watched is a deployment as it was observed.
type watched struct {
	scaler *plan.Scaler
	tokens uint64 // computed in all, at the last observation
	seen   time.Time
}

// tick and written are notes to self.
type (
	tick    struct{ incarnation uint64 }
	written struct {
		incarnation uint64
		err         error
	}
)

func (p *planner) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		p.life, p.end = context.WithCancel(context.Background())
		p.models = make(map[string]*watched)
		p.onTick(ctx, &tick{p.incarnation})
	case *actor.Restarting, *actor.Stopping:
		p.end()
	case *tick:
		p.onTick(ctx, msg)
	case *messages.Table:
		p.onTable(ctx, msg)
	case *written:
		p.onWritten(msg)
	}
}

func (p *planner) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != p.incarnation {
		return
	}
	supervise.After(ctx, observeEvery, msg)
	switch {
	case p.writing:
	case p.Reigns():
		ctx.Request(p.Router, &messages.GetTable{})
	default:
		clear(p.models)
		p.write(ctx, p.Acquire)
	}
}

// onTable decides on every deployment that may be scaled, and carries out the first change. The others are seen again in a
// second.
func (p *planner) onTable(ctx actor.Context, t *messages.Table) {
	if p.writing || !p.Reigns() {
		return
	}
	now := time.Now()
	for _, d := range t.GetDeployments() {
		spec := d.GetSpec()
		if spec.GetMinReplicas() >= spec.GetMaxReplicas() {
			delete(p.models, spec.GetName())
			continue
		}
		want, why := p.watch(spec).decide(now, d)
		if want == int(spec.GetReplicas()) {
			continue
		}
		p.Log.Info().Str("model", spec.GetName()).Uint32("from", spec.GetReplicas()).Int("to", want).Str("why", why).Msg("scaled")
		p.write(ctx, func(c context.Context) error { return p.Scale(c, spec.GetName(), d.GetRevision(), uint32(want), why) })
		return
	}
}

func (p *planner) watch(spec *messages.DeploymentSpec) *watched {
	w := p.models[spec.GetName()]
	bounds := plan.NewScaler(plan.Scaling{Low: int(spec.GetMinReplicas()), High: int(spec.GetMaxReplicas())})
	if w == nil || w.scaler.Low != bounds.Low || w.scaler.High != bounds.High {
		w = &watched{scaler: bounds}
		p.models[spec.GetName()] = w
	}
	return w
}

func (w *watched) decide(now time.Time, d *messages.DeploymentStatus) (int, string) {
	load := plan.Load{Want: int(d.GetSpec().GetReplicas()), Changing: d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_READY}
	var tokens uint64
	for _, r := range d.GetReplicas() {
		if r.GetState() != messages.ReplicaState_REPLICA_STATE_SERVING {
			continue
		}
		load.Serving++
		load.Running += int(r.GetRunning())
		load.Waiting += int(r.GetWaiting())
		load.Places += int(r.GetMaxSequences())
		load.KVBlocks += int(r.GetKvBlocks())
		load.KVFree += int(r.GetKvBlocksFree())
		tokens += r.GetTokensIn() + r.GetTokensOut()
	}
	if tokens > w.tokens && !w.seen.IsZero() { // else a replica has gone
		load.TokenRate = float64(tokens-w.tokens) / now.Sub(w.seen).Seconds()
	}
	w.tokens, w.seen = tokens, now
	return w.scaler.Scale(now, load)
}

func (p *planner) write(ctx actor.Context, do func(context.Context) error) {
	p.writing = true
	incarnation := p.incarnation
	supervise.Job(ctx, p.life,
		func(life context.Context) (struct{}, error) {
			c, cancel := context.WithTimeout(life, writeWithin)
			defer cancel()
			return struct{}{}, do(c)
		},
		func(_ struct{}, err error) any { return &written{incarnation, err} })
}

func (p *planner) onWritten(msg *written) {
	if msg.incarnation != p.incarnation {
		return
	}
	p.writing = false
	if msg.err != nil { // tried again with the next tick, over what is then
		p.Log.Debug().Err(msg.err).Msg("neither lease nor decision written")
	}
}
