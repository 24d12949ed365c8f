package members

import "time"

// contact is what a node knows of its own tie to NATS: whether it may call others silent, and whether it is itself sure to
// count as alive.
type contact struct {
	RenewEvery, SilentFor, Grace time.Duration

	unbroken time.Time // since when every renewal succeeded; zero: the last one failed
	renewed  time.Time // when the last successful renewal was begun
	failing  time.Time // since when every renewal failed; zero: the last one succeeded
	lost     time.Time // when the node was last found to have been away: another connection, or a stall
	ticked   time.Time // when its own clock last ticked
}

// tick is called at every turn of the node's clock, and reports whether it had stood still: the process was stopped, or got
// no processor.
func (c *contact) tick(now time.Time) (stalled bool) {
	stalled = !c.ticked.IsZero() && now.Sub(c.ticked) > c.SilentFor
	c.ticked = now
	if stalled {
		c.away(now)
	}
	return stalled
}

// away is called when the node was cut off, or begins.
func (c *contact) away(now time.Time) { c.lost, c.unbroken = now, time.Time{} }

// succeeded is called when a renewal was taken that was begun at a time.
func (c *contact) succeeded(begun, now time.Time) {
	if c.unbroken.IsZero() || now.Sub(c.renewed) > c.SilentFor {
		c.unbroken = now
	}
	c.renewed, c.failing = begun, time.Time{}
}

// failed is called when a renewal was not answered, or not by a leader.
func (c *contact) failed(now time.Time) {
	c.unbroken = time.Time{}
	if c.failing.IsZero() {
		c.failing = now
	}
}

// unanswered returns since when renewals fail; ok is false where that is no longer than an election takes.
func (c *contact) unanswered(now time.Time) (since time.Time, ok bool) {
	return c.failing, !c.failing.IsZero() && now.Sub(c.failing) >= 2*c.SilentFor
}

// due reports whether it is time for a renewal: after one that failed, at once.
func (c *contact) due(now time.Time) bool {
	return c.unbroken.IsZero() || now.Sub(c.renewed) >= c.RenewEvery-c.turn()/2
}

// turn is how often the clock should tick.
func (c *contact) turn() time.Duration { return c.RenewEvery / 3 }

// steadyFor is how long renewals must have succeeded after one failed: without a leader nobody could write, and as soon as there is
// one, everybody does. It is a renewal under way that was lost with the old leader, and its repetition.
func (c *contact) steadyFor() time.Duration { return c.SilentFor * 3 / 4 }

// maySuspect reports whether a silence that this node sees is another's, not its own. After a lost connection each comes back in
// its own time, hence the grace.
func (c *contact) maySuspect(now time.Time) bool {
	return !c.unbroken.IsZero() && now.Sub(c.unbroken) >= c.steadyFor() && now.Sub(c.lost) >= c.Grace && c.certain(now)
}

// bucketLost reports whether renewals fail for longer than an election takes: then the bucket itself may be gone.
func (c *contact) bucketLost(now time.Time) bool { return now.Sub(c.renewed) >= 2*c.SilentFor }

// certain reports whether nobody can have deleted this member yet: others count from when they saw its renewal.
func (c *contact) certain(now time.Time) bool {
	return !c.renewed.IsZero() && now.Sub(c.renewed) < c.SilentFor
}
