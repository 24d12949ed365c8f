package supervise

import "sync/atomic"

const (
	throughput = 300 // messages of one actor before others get a turn: protoactor's own
	kept       = 32  // goroutines at most that wait for work
)

// Dispatcher runs actors on goroutines that it keeps: a new one's stack is small, and to let it grow costs more than most messages do.
type Dispatcher struct {
	work    chan func()
	waiting atomic.Int32
	closed  chan struct{}
}

// NewDispatcher returns a dispatcher. Close it when its actors are gone.
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

// Close lets goroutines end that wait for work. What is scheduled afterwards still runs.
func (d *Dispatcher) Close() { close(d.closed) }

func (d *Dispatcher) run(f func()) {
	for {
		f()
		if d.waiting.Add(1) > kept {
			d.waiting.Add(-1)
			return
		}
		select {
		case f = <-d.work:
			d.waiting.Add(-1)
		case <-d.closed:
			return
		}
	}
}
