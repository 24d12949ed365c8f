package supervise

import "sync/atomic"

const (
	throughput = 300 // messages of one actor before others get a turn; protoactor's default
	maxIdle    = 32  // idle goroutines kept, at most
)

// Dispatcher runs actors on reused goroutines. A new goroutine has a small stack, and growing it
// costs more than most messages do.
type Dispatcher struct {
	work   chan func()
	idle   atomic.Int32
	closed chan struct{}
}

// NewDispatcher returns a dispatcher. Close it after its actors have stopped.
func NewDispatcher() *Dispatcher {
	return &Dispatcher{work: make(chan func()), closed: make(chan struct{})}
}

// Schedule implements actor.Dispatcher.
func (d *Dispatcher) Schedule(f func()) {
	select {
	case d.work <- f:
	default:
		go d.run(f)
	}
}

// Throughput implements actor.Dispatcher.
func (d *Dispatcher) Throughput() int { return throughput }

// Close ends idle goroutines. Functions scheduled afterwards still run.
func (d *Dispatcher) Close() { close(d.closed) }

func (d *Dispatcher) run(f func()) {
	for {
		f()
		if d.idle.Add(1) > maxIdle {
			d.idle.Add(-1)
			return
		}
		select {
		case f = <-d.work:
			d.idle.Add(-1)
		case <-d.closed:
			return
		}
	}
}
