package supervise

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"
)

// coolDown is how long a group leaves a child alone that crashed too often.
const coolDown = within

// Child is one fixed child of a group.
type Child struct {
	Name  string
	Props *actor.Props
}

// GroupConfig describes a group: a supervisor that has fixed children and does
// nothing itself, so that it has nothing to crash on.
type GroupConfig struct {
	Children []Child // started in this order, stopped in the reverse one
	Strategy actor.SupervisorStrategy
	Log      zerolog.Logger
}

// Group returns the recipe for a group.
func Group(cfg GroupConfig) *actor.Props {
	return Props(func() actor.Actor { return &group{GroupConfig: cfg} },
		actor.WithSupervisor(cfg.Strategy))
}

type group struct {
	GroupConfig
	ending bool // its children end because it does
}

// again is a note to self: start a child that was stopped.
type again struct{ child Child }

func (g *group) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		for _, c := range g.Children {
			g.start(ctx, c)
		}
	case *actor.Restarting, *actor.Stopping:
		g.ending = true
	case *actor.Terminated:
		g.onTerminated(ctx, msg)
	case *again:
		g.start(ctx, msg.child)
	}
}

func (g *group) start(ctx actor.Context, c Child) {
	if _, err := ctx.SpawnNamed(c.Props, c.Name); err != nil {
		g.Log.Error().Err(err).Str("child", c.Name).Msg("child not started")
	}
}

// onTerminated: a child crashed too often and was stopped. Leave it alone for a while.
func (g *group) onTerminated(ctx actor.Context, msg *actor.Terminated) {
	if g.ending {
		return
	}
	for _, c := range g.Children {
		if msg.GetWho().GetId() == ctx.Self().GetId()+"/"+c.Name {
			g.Log.Error().Str("child", c.Name).Dur("again_in", coolDown).Msg("child stopped after too many crashes")
			After(ctx, coolDown, &again{c})
		}
	}
}
