package session

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/rs/zerolog"

	"troupe/actors/supervise"
	core "troupe/core/session"
	"troupe/messages"
)

// Client is the call that a gateway holds open for a session. It outlives the session and records
// the delivered output. One session at a time uses it.
type Client interface {
	// Output returns the tokens delivered so far.
	Output() []uint32
	// Deliver appends tokens to the output, and ends it if finish is set. cached is the number of
	// prompt tokens that needed no prefill.
	Deliver(tokens []uint32, logprobs []*messages.TokenLogprobs, cached uint32, finish messages.FinishReason)
	Fail(refused *messages.Refused)
	// Left reports whether the request has ended and takes no more output.
	Left() bool
}

// Config is fixed for the life of the actor and shared by its restarts.
type Config struct {
	RequestID string
	Sequence  *messages.SequenceSpec
	Client    Client
	Router    *actor.PID // of this node
	Placed    time.Time  // when another sequence of its request got its place; zero: none has
	Log       zerolog.Logger
}

// Props returns the props of a session.
func Props(cfg Config) *actor.Props {
	machine := machineConfig(cfg.Sequence)
	var incarnation uint64
	kept := kept{placed: cfg.Placed, begun: !cfg.Placed.IsZero()}
	return supervise.Props(func() actor.Actor {
		incarnation++
		machine.Placed, machine.Begun = kept.placed, kept.begun
		return &session{Config: cfg, incarnation: incarnation, kept: &kept, machine: core.New(machine)}
	})
}

// kept is the state shared by all incarnations of a session.
type kept struct {
	revision string    // digest of the files that computed the output
	placed   time.Time // when the session got its place in the queues; zero: it has none
	begun    bool      // a replica was found for it
}

type session struct {
	Config
	incarnation uint64
	kept        *kept
	machine     *core.Machine
	timer       supervise.Timer // nil: none was set
}

// timerFired is a message to self.
type timerFired struct{ incarnation, attempt uint64 }

func (s *session) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		s.onStarted(ctx)
	case *actor.Restarting, *actor.Stopping:
		s.onStopping(ctx)
	case *actor.Stopped:
	case *messages.RouteSequenceResult:
		s.onRouted(ctx, msg)
	case *messages.SubmitSequenceResult:
		s.onSubmitted(ctx, msg)
	case *messages.TokensEmitted:
		s.onTokens(ctx, msg)
	case *messages.SequenceInterrupted:
		s.onInterrupted(ctx, msg)
	case *messages.SequenceStatus:
		s.onStatus(ctx, msg)
	case *messages.SequenceMoved:
		s.onMoved(ctx, msg)
	case *actor.Terminated:
		s.onLost(ctx, msg.GetWho())
	case *actor.DeadLetterResponse:
		s.onLost(ctx, msg.GetTarget())
	case *messages.CloseSession:
		s.onClose(ctx)
	case *timerFired:
		s.onTimer(ctx, msg)
	default:
		supervise.Unknown(ctx, "session")
	}
}
