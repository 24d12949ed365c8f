package supervise

import (
	"context"
	crand "crypto/rand"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/asynkron/protoactor-go/extensions"
)

// Runtime is how actors, and what works beside them, reach time, concurrency, randomness, and ids.
// They use nothing else for that (arch_test.go in the root checks it), so a simulation that
// provides another Runtime decides what happens when. System is the real one.
type Runtime interface {
	// Now returns the current time, with a monotonic clock reading if the runtime has one.
	Now() time.Time
	// After returns a channel that receives the current time once, after d.
	After(d time.Duration) <-chan time.Time
	// AfterFunc runs f in a goroutine of its own after d, unless the timer is stopped before.
	AfterFunc(d time.Duration, f func()) Timer
	// WithTimeout returns a copy of parent that is done after d, as context.WithTimeout does.
	WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// OnDone runs f in a goroutine of its own once ctx is done, unless it is stopped before, as
	// context.AfterFunc does. stop returns false if f was started or stopped before.
	OnDone(ctx context.Context, f func()) (stop func() bool)
	// Go runs f in a goroutine of its own.
	Go(f func())
	// Uint64 returns a random number. It is not for secrets.
	Uint64() uint64
	// ReadRandom fills b with unpredictable bytes. They are fit for secrets.
	ReadRandom(b []byte)
	// ID returns a text that no other call returns, on any node, and that cannot be guessed.
	ID() string
}

// Timer is a timer of Runtime.AfterFunc.
type Timer interface {
	// Stop prevents the timer from firing. It returns false if the timer has fired or was stopped
	// before.
	Stop() bool
}

// System is the Runtime of the operating system.
var System Runtime = system{}

type system struct{}

func (system) Now() time.Time                                 { return time.Now() }
func (system) After(d time.Duration) <-chan time.Time         { return time.After(d) }
func (system) AfterFunc(d time.Duration, f func()) Timer      { return time.AfterFunc(d, f) }
func (system) OnDone(c context.Context, f func()) func() bool { return context.AfterFunc(c, f) }
func (system) Go(f func())                                    { go f() }
func (system) Uint64() uint64                                 { return rand.Uint64() }
func (system) ReadRandom(b []byte)                            { _, _ = crand.Read(b) } // never fails
func (system) ID() string                                     { return crand.Text() }

func (system) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(parent, d)
}

var runtimeID = extensions.NextExtensionID()

// runtimeExtension is the Runtime of an actor system.
type runtimeExtension struct{ Runtime }

// ExtensionID implements extensions.Extension.
func (*runtimeExtension) ExtensionID() extensions.ExtensionID { return runtimeID }

// SetRuntime sets the runtime of all actors of the system. Without it, it is System. It must be
// called before the first actor is spawned.
func SetRuntime(sys *actor.ActorSystem, rt Runtime) {
	sys.Extensions.Register(&runtimeExtension{rt})
}

// RuntimeOf returns the runtime of an actor system.
func RuntimeOf(sys *actor.ActorSystem) Runtime {
	if e, ok := sys.Extensions.Get(runtimeID).(*runtimeExtension); ok {
		return e.Runtime
	}
	return System
}

// Now returns the time of the actor's runtime.
func Now(ctx actor.Context) time.Time { return RuntimeOf(ctx.ActorSystem()).Now() }

// WithTimeout returns a copy of parent that is done after d by the clock of the actor's runtime.
func WithTimeout(ctx actor.Context, parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return RuntimeOf(ctx.ActorSystem()).WithTimeout(parent, d)
}

// OrSystem returns rt, or System if rt is nil.
func OrSystem(rt Runtime) Runtime {
	if rt == nil {
		return System
	}
	return rt
}

// GoIn runs f in a goroutine of rt that running waits for, as running.Go(f) does with a goroutine
// of the operating system.
func GoIn(rt Runtime, running *sync.WaitGroup, f func()) {
	running.Add(1)
	rt.Go(func() {
		defer running.Done()
		f()
	})
}
