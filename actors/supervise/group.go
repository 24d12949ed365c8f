package supervise

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/core/restart"
)

// cooldown is how long a group waits before it restarts a child that crashed too often.
const cooldown = restart.Window

// Child is one fixed child of a group.
type Child struct {
	Name  string
	Props *actor.Props
}

// GroupConfig configures a group: a supervisor that has fixed children and no other work, so that
// it has nothing to crash on.
type GroupConfig struct {
	Children []Child // started in this order, stopped in reverse
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Group returns the props of a group.
func Group(cfg GroupConfig) *actor.Props {
	return Props(func() actor.Actor { return &group{GroupConfig: cfg} },
		actor.WithSupervisor(cfg.Strategy))
}

type group struct {
	GroupConfig
	stopping bool // its children stop because it does
}

// restartChild is a message to self: start a child that was stopped.
type restartChild struct{ child Child }

func (g *group) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		for _, c := range g.Children {
			g.start(ctx, c)
		}
	case *actor.Restarting, *actor.Stopping:
		g.stopping = true
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	case *restartChild:
		g.start(ctx, msg.child)
	default:
		Unknown(ctx, "group")
	}
}

func (g *group) start(ctx actor.Context, c Child) {
	if _, err := ctx.SpawnNamed(c.Props, c.Name); err != nil {
		g.Log.Error().Err(err).Str("child", c.Name).Msg("starting child failed")
	}
}

// onTerminated schedules the restart of a child that was stopped after too many crashes.
func (g *group) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	if g.stopping {
		return
	}
	for _, c := range g.Children {
		if msg.GetWho().GetId() == ctx.Self().GetId()+"/"+c.Name {
			g.Log.Error().Str("child", c.Name).Dur("again_in", cooldown).Msg("child stopped after too many crashes")
			After(ctx, cooldown, &restartChild{c})
		}
	}
}
