package testkit

import (
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
)

// System returns an actor system without logs that is shut down at the end of the test.
func System(t testing.TB) *actor.ActorSystem {
	t.Helper()
	sys := actor.NewActorSystem(
		actor.WithDeadLetterThrottleInterval(time.Nanosecond),
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) }),
	)
	t.Cleanup(func() {
		sys.Shutdown()
		// in a synctest bubble, lets the framework's timer end without starting another
		time.Sleep(10 * time.Nanosecond)
	})
	return sys
}

// Spawn starts the actor under test with Wire and further middleware, under a supervisor with the
// given strategy. It is stopped at the end of the test.
func Spawn(
	t testing.TB,
	sys *actor.ActorSystem,
	name string,
	strategy actor.SupervisorStrategy,
	props *actor.Props,
	mw ...actor.ReceiverMiddleware,
) *actor.PID {
	t.Helper()
	return SpawnUnder(t, sys, sys.ProcessRegistry.NextID(), name, strategy, props, mw...)
}

// SpawnUnder is like Spawn, with a name for the supervisor, so that the address of the actor is known before
// it starts.
func SpawnUnder(
	t testing.TB,
	sys *actor.ActorSystem,
	supervisor, name string,
	strategy actor.SupervisorStrategy,
	props *actor.Props,
	mw ...actor.ReceiverMiddleware,
) *actor.PID {
	t.Helper()
	child := props.Configure(actor.WithReceiverMiddleware(append(mw, Wire)...))
	started := make(chan *actor.PID, 1)
	parent, err := sys.Root.SpawnNamed(actor.PropsFromFunc(func(ctx actor.Context) {
		if _, ok := ctx.Message().(*actor.Started); ok {
			pid, err := ctx.SpawnNamed(child, name)
			if err != nil {
				panic(err)
			}
			started <- pid
		}
	}, actor.WithSupervisor(strategy)), supervisor)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sys.Root.StopFuture(parent).Wait() })
	return <-started
}

// Peer is the other side of a protocol, played by the test. It records every message and answers
// with a given function.
type Peer struct {
	PID *actor.PID
	sys *actor.ActorSystem

	mu     sync.Mutex
	got    []proto.Message
	answer func(proto.Message) proto.Message
}

// NewPeer starts a peer under a name. answer may be nil, and may return nil.
func NewPeer(t testing.TB, sys *actor.ActorSystem, name string, answer func(proto.Message) proto.Message) *Peer {
	t.Helper()
	p := &Peer{sys: sys, answer: answer}
	pid, err := sys.Root.SpawnNamed(actor.PropsFromFunc(p.receive), name)
	if err != nil {
		t.Fatal(err)
	}
	p.PID = pid
	t.Cleanup(func() { _ = sys.Root.StopFuture(pid).Wait() })
	return p
}

func (p *Peer) receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case actor.SystemMessage, actor.AutoReceiveMessage:
	case proto.Message:
		p.mu.Lock()
		p.got = append(p.got, m)
		answer := p.answer
		p.mu.Unlock()
		if answer == nil {
			return
		}
		if reply := answer(m); reply != nil && ctx.Sender() != nil {
			ctx.Respond(reply)
		}
	}
}

// Send sends a message as the peer.
func (p *Peer) Send(to *actor.PID, m proto.Message) { p.sys.Root.RequestWithCustomSender(to, m, p.PID) }

// System returns the peer's actor system.
func (p *Peer) System() *actor.ActorSystem { return p.sys }

// Stop stops the peer; its watchers are notified.
func (p *Peer) Stop() { _ = p.sys.Root.StopFuture(p.PID).Wait() }

// Got returns all messages of a type that a peer has received.
func Got[T proto.Message](p *Peer) []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []T
	for _, m := range p.got {
		if t, ok := m.(T); ok {
			all = append(all, t)
		}
	}
	return all
}
