package members

import "time"

// natsHealth is what a node knows of its own tie to NATS: whether it may call others silent, and whether it is itself sure to
// count as alive.
type natsHealth struct {
	RenewEvery, SilentFor, Grace time.Duration

	healthySince   time.Time // since when every renewal renewSucceeded; zero: the last one failed
	lastRenewed    time.Time // when the last successful renewal was begun
	failingSince   time.Time // since when every renewal failed; zero: the last one renewSucceeded
	lastDisconnect time.Time // when the node was last found to have been away: another connection, or a stall
	lastTick       time.Time // when its own clock last ticked
}

// tick is called at every turn of the node's clock, and reports whether it had stood still: the process was stopped, or got
// no processor.
func (c *natsHealth) tick(now time.Time) (stalled bool) {
	stalled = !c.lastTick.IsZero() && now.Sub(c.lastTick) > c.SilentFor
	c.lastTick = now
	if stalled {
		c.disconnected(now)
	}
	return stalled
}

// away is called when the node was cut off, or begins.
func (c *natsHealth) disconnected(now time.Time) { c.lastDisconnect, c.healthySince = now, time.Time{} }

// renewSucceeded is called when a renewal was taken that was begun at a time.
func (c *natsHealth) renewSucceeded(begun, now time.Time) {
	if c.healthySince.IsZero() || now.Sub(c.lastRenewed) > c.SilentFor {
		c.healthySince = now
	}
	c.lastRenewed, c.failingSince = begun, time.Time{}
}

// failed is called when a renewal was not answered, or not by a leader.
func (c *natsHealth) renewFailed(now time.Time) {
	c.healthySince = time.Time{}
	if c.failingSince.IsZero() {
		c.failingSince = now
	}
}

// renewalsFailingSince returns since when renewals fail; ok is false where that is no longer than an election takes.
func (c *natsHealth) renewalsFailingSince(now time.Time) (since time.Time, ok bool) {
	return c.failingSince, !c.failingSince.IsZero() && now.Sub(c.failingSince) >= 2*c.SilentFor
}

// due reports whether it is time for a renewal: after one that failed, at once.
func (c *natsHealth) renewDue(now time.Time) bool {
	return c.healthySince.IsZero() || now.Sub(c.lastRenewed) >= c.RenewEvery-c.tickInterval()/2
}

// turn is how often the clock should tick.
func (c *natsHealth) tickInterval() time.Duration { return c.RenewEvery / 3 }

// stableFor is how long renewals must have renewSucceeded after one failed: without a leader nobody could write, and as soon as there is
// one, everybody does. It is a renewal under way that was lost with the old leader, and its repetition.
func (c *natsHealth) stableFor() time.Duration { return c.SilentFor * 3 / 4 }

// canSuspect reports whether a silence that this node sees is another's, not its own. After a lost connection each comes back in
// its own time, hence the grace.
func (c *natsHealth) canSuspect(now time.Time) bool {
	return !c.healthySince.IsZero() && now.Sub(c.healthySince) >= c.stableFor() && now.Sub(c.lastDisconnect) >= c.Grace && c.leaseValid(now)
}

// bucketLost reports whether renewals fail for longer than an election takes: then the bucket itself may be gone.
func (c *natsHealth) bucketLost(now time.Time) bool { return now.Sub(c.lastRenewed) >= 2*c.SilentFor }

// leaseValid reports whether nobody can have deleted this member yet: others count from when they saw its renewal.
func (c *natsHealth) leaseValid(now time.Time) bool {
	return !c.lastRenewed.IsZero() && now.Sub(c.lastRenewed) < c.SilentFor
}
