package members

import "time"

// natsHealth tracks a node's own connection to NATS. It decides whether the node may suspect silent
// members, and whether others may have deleted the node itself.
type natsHealth struct {
	RenewEvery, SilentFor, Grace time.Duration

	healthySince   time.Time // start of the current series of successful renewals; zero if the last one failed
	lastRenewed    time.Time // start of the last successful renewal
	failingSince   time.Time // start of the current series of failed renewals; zero if the last one succeeded
	lastDisconnect time.Time // time of the last detected reconnection or stall
	lastTick       time.Time // time of the last tick
}

// tick is called on every tick of the node's timer. It reports whether the process stalled, because
// it was stopped or got no CPU.
func (h *natsHealth) tick(now time.Time) (stalled bool) {
	stalled = !h.lastTick.IsZero() && now.Sub(h.lastTick) > h.SilentFor
	h.lastTick = now
	if stalled {
		h.disconnected(now)
	}
	return stalled
}

// disconnected records that the node starts, or that it was disconnected from NATS or stalled.
func (h *natsHealth) disconnected(now time.Time) { h.lastDisconnect, h.healthySince = now, time.Time{} }

// renewSucceeded records a successful renewal that started at begun.
func (h *natsHealth) renewSucceeded(begun, now time.Time) {
	if h.healthySince.IsZero() || now.Sub(h.lastRenewed) > h.SilentFor {
		h.healthySince = now
	}
	h.lastRenewed, h.failingSince = begun, time.Time{}
}

// renewFailed records a renewal that got no answer, or none from a leader.
func (h *natsHealth) renewFailed(now time.Time) {
	h.healthySince = time.Time{}
	if h.failingSince.IsZero() {
		h.failingSince = now
	}
}

// renewalsFailingSince returns the time since which renewals fail. ok is false while that is no
// longer than an election takes.
func (h *natsHealth) renewalsFailingSince(now time.Time) (since time.Time, ok bool) {
	return h.failingSince, !h.failingSince.IsZero() && now.Sub(h.failingSince) >= 2*h.SilentFor
}

// renewDue reports whether it is time for a renewal. After a failed renewal the next one is due at
// once.
func (h *natsHealth) renewDue(now time.Time) bool {
	return h.healthySince.IsZero() || now.Sub(h.lastRenewed) >= h.RenewEvery-h.tickInterval()/2
}

// tickInterval returns the interval between ticks.
func (h *natsHealth) tickInterval() time.Duration { return h.RenewEvery / 3 }

// stableFor returns how long renewals must have succeeded after a failure before the node may
// suspect others. Without a leader no member can renew, and once there is one, all members renew.
// The time covers a renewal that was lost with the old leader, and its retry.
func (h *natsHealth) stableFor() time.Duration { return h.SilentFor * 3 / 4 }

// canSuspect reports whether the node may attribute the silence of a member to that member and not
// to its own connection. After a disconnection each node reconnects in its own time, hence Grace.
func (h *natsHealth) canSuspect(now time.Time) bool {
	return !h.healthySince.IsZero() && now.Sub(h.healthySince) >= h.stableFor() &&
		now.Sub(h.lastDisconnect) >= h.Grace &&
		h.leaseValid(now)
}

// bucketLost reports whether renewals have failed for longer than an election takes, so that the
// bucket itself may be gone.
func (h *natsHealth) bucketLost(now time.Time) bool { return now.Sub(h.lastRenewed) >= 2*h.SilentFor }

// leaseValid reports whether no other node can have deleted this member yet. Others measure its
// silence from when they saw its renewal, so counting from the start of the renewal is safe.
func (h *natsHealth) leaseValid(now time.Time) bool {
	return !h.lastRenewed.IsZero() && now.Sub(h.lastRenewed) < h.SilentFor
}
