package supervise

import "sync"

// Lock is a mutex that may be held while its holder waits for other goroutines, timers or answers. A simulation
// cannot see that goroutines are blocked on a sync.Mutex. Waiters get a Lock in FIFO order. Unlock wakes the next
// waiter from a Runtime goroutine, so that in a simulation the waiter does not run concurrently with the caller of
// Unlock.
type Lock struct {
	rt      Runtime
	mu      sync.Mutex
	held    bool
	waiting []chan struct{}
}

// NewLock returns an unlocked Lock.
func NewLock(rt Runtime) *Lock { return &Lock{rt: OrSystem(rt)} }

// Lock implements sync.Locker.
func (l *Lock) Lock() {
	l.mu.Lock()
	if !l.held {
		l.held = true
		l.mu.Unlock()
		return
	}
	turn := make(chan struct{})
	l.waiting = append(l.waiting, turn)
	l.mu.Unlock()
	<-turn
}

// Unlock implements sync.Locker.
func (l *Lock) Unlock() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) == 0 {
		l.held = false
		return
	}
	next := l.waiting[0]
	l.waiting = l.waiting[1:]
	l.rt.Go(func() { close(next) })
}
