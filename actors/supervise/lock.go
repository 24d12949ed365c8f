package supervise

import "sync"

// Lock is a mutex that may be held while its holder waits for other goroutines, timers or answers.
// With a sync.Mutex, a simulation could not tell that those who wait for the lock are blocked. They
// get it in the order in which they asked, each in a goroutine of the Runtime, so that they do not
// run at the same time as the one that has unlocked it.
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
