package dst

import "time"

// timing is when a call was opened, and when its tokens arrived.
type timing struct{ opened, first, last time.Time }

// arrived notes the arrival of tokens. The caller must hold the call's mu.
func (t *timing) arrived() {
	t.last = time.Now()
	if t.first.IsZero() {
		t.first = t.last
	}
}
