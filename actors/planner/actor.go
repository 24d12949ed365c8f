package planner

import (
	"context"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/core/schedule"
	"troupe/messages"
)

// Role is the name of the leader's lease.
const Role = "planner"

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	// IsLeader reports whether this node holds the lease. It must not block.
	IsLeader func() bool
	// Acquire takes the lease if it is free.
	Acquire func(ctx context.Context) error
	Router  *actor.PID // of this node
	// Scale stores the number of replicas of a deployment, if its revision is still the given one.
	Scale func(ctx context.Context, name string, revision uint64, replicas uint32, why string) error
	Log   zerolog.Logger
}

// Props returns the props of a planner.
func Props(cfg Config) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &planner{Config: cfg, incarnation: incarnation}
	})
}

const (
	observeInterval = time.Second
	writeTimeout    = 2 * time.Second
)

type planner struct {
	Config
	incarnation uint64
	lifetime    context.Context // cancelled when this incarnation ends
	cancel      context.CancelFunc
	writing     bool                        // a write of the lease or a decision is in flight
	deployments map[string]*deploymentState // by name
}

// deploymentState is the observed state of a deployment.
type deploymentState struct {
	scaler   *schedule.Scaler
	tokens   uint64 // total computed at the last observation
	observed time.Time
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
		p.lifetime, p.cancel = context.WithCancel(context.Background())
		p.deployments = make(map[string]*deploymentState)
		p.onTick(ctx, &tick{p.incarnation})
	case *actor.Restarting, *actor.Stopping:
		p.cancel()
	case *tick:
		p.onTick(ctx, msg)
	case *messages.ClusterView:
		p.onTable(ctx, msg)
	case *writeDone:
		p.onWriteDone(msg)
	default:
		supervise.Unknown(ctx, "planner")
	}
}

func (p *planner) onTick(ctx actor.Context, msg *tick) {
	if msg.incarnation != p.incarnation {
		return
	}
	supervise.After(ctx, observeInterval, msg)
	switch {
	case p.writing:
	case p.IsLeader():
		ctx.Request(p.Router, &messages.GetClusterView{})
	default:
		clear(p.deployments)
		p.write(ctx, p.Acquire)
	}
}

// onTable decides on every deployment with a range of replicas and carries out the first change.
// The next observation handles the others.
func (p *planner) onTable(ctx actor.Context, t *messages.ClusterView) {
	if p.writing || !p.IsLeader() {
		return
	}
	now := time.Now()
	for _, d := range t.GetDeployments() {
		spec := d.GetSpec()
		if spec.GetMinReplicas() >= spec.GetMaxReplicas() {
			delete(p.deployments, spec.GetName())
			continue
		}
		want, why := p.stateOf(spec).decide(now, d)
		if want == int(spec.GetReplicas()) {
			continue
		}
		p.Log.Info().Str("model", spec.GetName()).Uint32("from", spec.GetReplicas()).Int("to", want).Str("why",
			why).Msg("scaled")
		p.write(ctx, func(c context.Context) error {
			return p.Scale(c, spec.GetName(), d.GetRevision(), uint32(want),
				why)
		})
		return
	}
}

func (p *planner) stateOf(spec *messages.DeploymentSpec) *deploymentState {
	w := p.deployments[spec.GetName()]
	bounds := schedule.NewScaler(schedule.Scaling{
		MinReplicas: int(spec.GetMinReplicas()), MaxReplicas: int(spec.GetMaxReplicas()),
	})
	if w == nil || w.scaler.MinReplicas != bounds.MinReplicas || w.scaler.MaxReplicas != bounds.MaxReplicas {
		w = &deploymentState{scaler: bounds}
		p.deployments[spec.GetName()] = w
	}
	return w
}

func (w *deploymentState) decide(now time.Time, d *messages.DeploymentStatus) (int, string) {
	load := schedule.Load{Want: int(d.GetSpec().GetReplicas()),
		Changing: d.GetState() != messages.DeploymentState_DEPLOYMENT_STATE_READY}
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
	if tokens > w.tokens && !w.observed.IsZero() { // otherwise a replica has stopped
		load.TokenRate = float64(tokens-w.tokens) / now.Sub(w.observed).Seconds()
	}
	w.tokens, w.observed = tokens, now
	return w.scaler.Scale(now, load)
}

func (p *planner) write(ctx actor.Context, do func(context.Context) error) {
	p.writing = true
	incarnation := p.incarnation
	supervise.Job(ctx, p.lifetime,
		func(life context.Context) (struct{}, error) {
			c, cancel := context.WithTimeout(life, writeTimeout)
			defer cancel()
			return struct{}{}, do(c)
		},
		func(_ struct{}, err error) any { return &writeDone{incarnation, err} })
}

func (p *planner) onWriteDone(msg *writeDone) {
	if msg.incarnation != p.incarnation {
		return
	}
	p.writing = false
	if msg.err != nil { // the next tick retries with a new observation
		p.Log.Debug().Err(msg.err).Msg("planner write failed")
	}
}
