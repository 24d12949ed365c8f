package gateway

import (
	"strings"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
)

// ActorConfig is fixed for the life of the gatewayActor actor and shared by its restarts.
type ActorConfig struct {
	Calls *Calls
	// Session returns the recipe of a child that serves a call.
	Session  func(call *Call) *actor.Props
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Props returns the recipe for the gatewayActor actor.
func Props(cfg ActorConfig) *actor.Props {
	return supervise.Props(
		func() actor.Actor { return &gatewayActor{ActorConfig: cfg} },
		actor.WithSupervisor(cfg.Strategy),
	)
}

type gatewayActor struct {
	ActorConfig
	stopping bool // its children end because it does
}

const sessionPrefix = "session-"

func (g *gatewayActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		for _, call := range g.Calls.all() {
			g.start(ctx, call)
		}
	case *messages.OpenSession:
		if call := g.Calls.get(msg.GetRequestId()); call != nil { // else the client has left already
			g.start(ctx, call)
		}
	case *messages.CloseSession:
		ctx.Send(actor.NewPID(ctx.Self().GetAddress(), ctx.Self().GetId()+"/"+sessionPrefix+msg.GetRequestId()), msg)
	case *actor.Restarting, *actor.Stopping:
		g.stopping = true
	case *actor.Terminated:
		g.onTerminated(msg)
	}
}

// start starts a call's session; one that is there already goes on.
func (g *gatewayActor) start(ctx actor.Context, call *Call) {
	if _, err := ctx.SpawnNamed(g.Session(call), sessionPrefix+call.ID); err != nil {
		g.Log.Debug().Err(err).Str("request", call.ID).Msg("session is there already")
	}
}

// onTerminated: a session has ended. Where its call has not, it crashed too often.
func (g *gatewayActor) onTerminated(msg *actor.Terminated) {
	if g.stopping {
		return // its successor starts the sessions again
	}
	_, id, _ := strings.Cut(msg.GetWho().GetId(), "/"+sessionPrefix)
	if call := g.Calls.get(id); call != nil {
		call.Fail(
			&messages.Refused{
				Reason: messages.Reason_REASON_INTERNAL,
				Detail: "the session of this request crashed again and again",
			},
		)
	}
}
