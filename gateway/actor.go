package gateway

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// ActorConfig configures the gateway actor. Restarts of the actor share it.
type ActorConfig struct {
	Calls  *Calls
	Router *actor.PID // of this node
	// Session returns the props of the session actor that serves a call.
	Session  func(call *Call) *actor.Props
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the props of the gateway actor.
func Props(cfg ActorConfig) *actor.Props {
	var incarnation uint64
	return supervise.Props(func() actor.Actor {
		incarnation++
		return &gatewayActor{ActorConfig: cfg, incarnation: incarnation}
	}, actor.WithSupervisor(cfg.Strategy))
}

type gatewayActor struct {
	ActorConfig
	incarnation uint64
	stopping    bool // it stops or restarts, and its children with it
	noDemand    bool // the router knows that no model has had demand
}

const sessionPrefix = "session-"

func (g *gatewayActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		for _, call := range g.Calls.all() {
			g.start(ctx, call)
		}
		g.Calls.demand.begin(supervise.Now(ctx))
		supervise.After(ctx, demandInterval, &demandDue{g.incarnation})
	case *demandDue:
		g.onDemandDue(ctx, msg)
	case *messages.OpenSession:
		// The call is nil if the client has left.
		if call := g.Calls.get(msg.GetRequestId()); call != nil {
			g.start(ctx, call)
		}
	case *messages.CloseSession:
		ctx.Send(actor.NewPID(ctx.Self().GetAddress(), ctx.Self().GetId()+"/"+sessionPrefix+msg.GetRequestId()), msg)
	case *actor.Restarting, *actor.Stopping:
		g.stopping = true
	case *actor.Terminated:
		g.onTerminated(msg)
	default:
		supervise.Unknown(ctx, "gateway")
	}
}

// start starts the session of a call. A session that already runs continues.
func (g *gatewayActor) start(ctx actor.Context, call *Call) {
	if _, err := ctx.SpawnNamed(g.Session(call), sessionPrefix+call.ID); err != nil {
		g.Log.Debug().Err(err).Str("request", call.ID).Msg("session already running")
	}
}

// onTerminated fails the call of a session that exceeded its restart limit. A session whose call
// has ended stopped normally.
func (g *gatewayActor) onTerminated(msg *actor.Terminated) {
	if g.stopping {
		return // the restarted actor starts the sessions again
	}
	_, id, _ := strings.Cut(msg.GetWho().GetId(), "/"+sessionPrefix)
	if call := g.Calls.get(id); call != nil {
		call.Fail(&messages.Refused{
			Reason: messages.Reason_REASON_INTERNAL, Detail: "the session of this request crashed repeatedly",
		})
	}
}
