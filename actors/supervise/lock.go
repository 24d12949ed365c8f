package supervise

// Lock is a mutex that may be held while its holder waits for other goroutines, timers or answers.
// With a sync.Mutex, a simulation could not tell that those who wait for the lock are blocked.
type Lock chan struct{}

// NewLock returns an unlocked Lock.
func NewLock() Lock { return make(Lock, 1) }

// Lock implements sync.Locker.
func (l Lock) Lock() { l <- struct{}{} }

// Unlock implements sync.Locker.
func (l Lock) Unlock() { <-l }
