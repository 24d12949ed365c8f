package hierarchy

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	"troupe/messages"
	"troupe/node/query"
	"troupe/observe/tree"
)

// NewSystem returns an actor system that uses a runtime. The system counts and logs messages that
// an actor does not handle.
func NewSystem(rt supervise.Runtime, metrics prometheus.Registerer, log zerolog.Logger) *actor.ActorSystem {
	frames := log.Level(max(log.GetLevel(), zerolog.WarnLevel)).
		Sample(&zerolog.BurstSampler{Burst: 5, Period: 10 * time.Second})
	sys := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		// protoactor logs a line for every message to a node that has left
		return slog.New(zerolog.NewSlogHandler(frames))
	}))
	supervise.SetRuntime(sys, rt)
	supervise.CountUnknown(sys, metrics, log)
	return sys
}

// Base is shared by all actors of a node.
type Base struct {
	Node       string // name of the node
	System     *actor.ActorSystem
	Dispatcher actor.Dispatcher
	Registry   *tree.Registry
	// Middleware returns middleware for every actor of a kind; nil: none.
	Middleware func(kind string) []actor.ReceiverMiddleware
	Log        zerolog.Logger
}

// pid returns the address of an actor of this node.
func (b *Base) pid(id string) *actor.PID { return query.Local(b.System, id) }

// pidAt returns the address of an actor on any node.
func pidAt(m *messages.Member, id string) *actor.PID { return actor.NewPID(m.GetAddress(), id) }

// Instrument registers the actors of the given props and adds the configured middleware.
func (b *Base) Instrument(kind string, props *actor.Props) *actor.Props {
	return b.instrumentOf(kind, "", props)
}

// instrumentOf is like Instrument, but for actors that serve one object, such as the adapter in a
// slot.
func (b *Base) instrumentOf(kind, of string, props *actor.Props) *actor.Props {
	if b.Middleware != nil {
		props = props.Configure(actor.WithReceiverMiddleware(b.Middleware(kind)...))
	}
	return b.Registry.InstrumentOf(kind, of, props.Configure(actor.WithDispatcher(b.Dispatcher)))
}

// Strategy returns the restart policy, which records and logs the crashes of actors.
func (b *Base) Strategy() actor.SupervisorStrategy { return supervise.Strategy(b.onFailure) }

// onFailure records and logs the crash of an actor.
func (b *Base) onFailure(f supervise.Failure) {
	b.Registry.RecordFailure(f.ID, f.Reason, f.Message, f.Time)
	b.Log.Warn().Str("actor", f.ID).Str("reason", fmt.Sprint(f.Reason)).Str("on", fmt.Sprintf("%T", f.Message)).
		Bool("stopped", f.Stopped).Msg("actor crashed")
}

// group returns the props of a group of actors.
func (b *Base) group(kind string, children []supervise.Child) *actor.Props {
	return b.Instrument(kind, supervise.Group(supervise.GroupConfig{
		Children: children, Strategy: b.Strategy(), Log: b.Log,
	}))
}
