package dst

import (
	"context"
	"time"
)

// deadline is a context of Runtime.WithTimeout. A timer of the world ends it, so that the seed
// decides what comes first of that and other things at the same time.
type deadline struct {
	context.Context
	at time.Time
}

// WithTimeout implements supervise.Runtime.
func (r *nodeRuntime) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	inner, end := context.WithCancelCause(parent)
	at := r.Now().Add(d)
	if earlier, ok := parent.Deadline(); ok && earlier.Before(at) {
		at = earlier
	}
	timer := r.AfterFunc(d, func() { end(context.DeadlineExceeded) })
	return &deadline{inner, at}, func() {
		timer.Stop()
		end(context.Canceled)
	}
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Err implements context.Context.
func (d *deadline) Err() error {
	err := d.Context.Err()
	if err != nil && context.Cause(d.Context) == context.DeadlineExceeded {
		return context.DeadlineExceeded
	}
	return err
}
