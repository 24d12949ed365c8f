package members

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// run is the main loop. On each tick it renews the node's record, reads the bucket again after
// missed changes, and deletes silent members.
func (m *Members) run() {
	defer close(m.done)
	every := m.health.tickInterval()
	m.tickAfter(every)
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-m.wake:
		}
		if m.ctx.Err() != nil {
			return
		}
		m.tick()
		m.mu.Lock()
		ticked := m.ticked
		m.ticked = time.Time{}
		m.mu.Unlock()
		if !ticked.IsZero() {
			m.tickAfter(ticked.Add(every).Sub(m.now()))
		}
	}
}

// tickAfter requests a tick after some time. The next one is requested once it has ended.
func (m *Members) tickAfter(d time.Duration) {
	m.cfg.Runtime.AfterFunc(d, func() {
		m.mu.Lock()
		m.ticked = m.now()
		m.mu.Unlock()
		m.tickNow()
	})
}

func (m *Members) tick() {
	m.mu.Lock()
	stalled := m.health.tick(m.now())
	dropped, _ := m.changesSub.Dropped() // fails if the connection is closed
	m.stale = m.stale || stalled || dropped != m.droppedChanges
	m.droppedChanges = dropped
	due := m.renewAsked || m.health.renewDue(m.now())
	m.renewAsked = false
	m.mu.Unlock()
	if stalled {
		m.cfg.Log.Warn().Dur("longer_than", m.cfg.SilentFor).
			Msg("this node stalled; other nodes may have declared it dead")
	}
	if !m.kv.Connected() {
		m.renewFailed()
		return
	}
	if due {
		m.renew()
	}
	m.resyncIfStale()
	m.expireSilent()
}

// reconnected is called when the connection is back and changes may have been missed.
func (m *Members) reconnected() {
	m.mu.Lock()
	m.health.disconnected(m.now())
	m.stale = true
	m.mu.Unlock()
	m.tickNow()
}

// renewFailed records a failed renewal and reports whether it is the first in a row.
func (m *Members) renewFailed() (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = !m.health.healthySince.IsZero()
	m.health.renewFailed(m.now())
	return first
}

// requestContext returns a context for one request to NATS. A renewal that takes longer has failed.
func (m *Members) requestContext() (context.Context, context.CancelFunc) {
	return m.cfg.Runtime.WithTimeout(m.ctx, m.cfg.SilentFor/2)
}

// renew renews the node's record, or joins again if the node was fenced.
func (m *Members) renew() {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	if m.address == "" {
		return
	}
	begun := m.now()
	ctx, cancel := m.requestContext()
	defer cancel()
	var err error
	if m.Self() == nil {
		err = m.rejoin(ctx)
	} else {
		err = m.write(ctx, m.Self())
	}
	if errors.Is(err, errConflict) {
		err = m.resolveConflict(ctx)
	}
	if err != nil {
		if m.renewFailed() && m.ctx.Err() == nil {
			m.cfg.Log.Warn().Err(err).
				Msg("renewal of this node's membership failed; retrying, and suspecting no member meanwhile")
		}
		if errors.Is(err, ErrNameTaken) { // NATS answered
			m.mu.Lock()
			m.health.failingSince = time.Time{}
			m.mu.Unlock()
		}
		m.recreateBucket(err)
		return
	}
	m.mu.Lock()
	m.health.renewSucceeded(begun, m.now())
	restored := m.bucketLost
	m.bucketLost = false
	m.mu.Unlock()
	if restored {
		m.cfg.Log.Info().Msg("this node is a member again")
		m.cfg.OnEvent("members.restored", "this node is a member again")
	}
}

// markBucketLost records that the bucket is gone and reports whether that was not known.
func (m *Members) markBucketLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.bucketLost
	m.bucketLost = true
	return first
}

// write writes the node's record over the revision last written. The caller holds writeMu.
func (m *Members) write(ctx context.Context, self *messages.Member) error {
	m.mu.Lock()
	over := m.revision
	m.mu.Unlock()
	return m.writeOver(ctx, self, over)
}

func (m *Members) writeOver(ctx context.Context, self *messages.Member, over uint64) error {
	revision, err := m.kv.put(ctx, memberKey(m.cfg.Name), self, over)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.self, m.revision = self, revision
	m.mu.Unlock()
	m.update(entry{key: memberKey(m.cfg.Name), revision: revision, member: self, firstSeen: m.now()})
	return nil
}

// resolveConflict handles a renewal that failed because the record has another revision than the
// one last written.
func (m *Members) resolveConflict(ctx context.Context) error {
	self := m.Self()
	e, err := m.kv.get(ctx, memberKey(m.cfg.Name))
	if err != nil || self == nil {
		return err
	}
	over, alive := renewOver(self, e)
	if alive {
		return m.writeOver(ctx, self, over)
	}
	m.cfg.Log.Warn().Str("member", self.GetId()).
		Msg("other nodes declared this node dead; rejoining as a new incarnation")
	m.mu.Lock()
	m.self, m.stale = nil, true
	m.health.disconnected(m.now())
	m.mu.Unlock()
	m.update(e)
	return m.rejoin(ctx)
}

// rejoin makes the node a member again, as a new incarnation, unless another member has its name
// now. It reads the bucket first.
func (m *Members) rejoin(ctx context.Context) error {
	if err := m.resync(ctx); err != nil {
		return err
	}
	m.mu.Lock()
	e := m.view[memberKey(m.cfg.Name)]
	m.mu.Unlock()
	if e.member != nil {
		if m.rival != e.memberID() {
			m.rival = e.memberID()
			m.cfg.Log.Error().Str("member", m.rival).Str("address", e.member.GetAddress()).
				Msg("cannot rejoin: another node has this node's name; stop one of them, or change its --name")
		}
		return ErrNameTaken
	}
	if err := m.writeOver(ctx, m.newRecord(0), e.revision); err != nil {
		return err
	}
	m.mu.Lock()
	m.pendingRejoined = true
	m.mu.Unlock()
	m.notify()
	return nil
}

// newRecord returns the record of a new incarnation of the node. The new incarnation number exceeds
// last, the latest one known for this name, and all that this process has used, even if the clock
// was set back.
func (m *Members) newRecord(last uint64) *messages.Member {
	now := m.now()
	self := &messages.Member{
		Name: m.cfg.Name, Incarnation: nextIncarnation(now, last, m.incarnation), Instance: m.cfg.Instance,
		Address: m.address, State: messages.MemberState_MEMBER_STATE_UP, Started: timestamppb.New(now),
		WireVersion: m.cfg.WireVersion,
	}
	m.incarnation = self.Incarnation
	if m.leaving {
		self.State = messages.MemberState_MEMBER_STATE_LEAVING
	}
	self.Id = idOf(self)
	m.cfg.Describe(self)
	return self
}

// recreateBucket creates the bucket again if it is gone and renewals have failed for longer than an
// election takes.
func (m *Members) recreateBucket(failure error) {
	m.mu.Lock()
	lost := m.health.bucketLost(m.now())
	m.mu.Unlock()
	if !lost || !errors.Is(failure, jetstream.ErrNoStreamResponse) && !errors.Is(failure, jetstream.ErrStreamNotFound) {
		return
	}
	ctx, cancel := m.requestContext()
	defer cancel()
	// A bucket without a majority does not respond either.
	if _, err := m.kv.Info(ctx, Bucket); !errors.Is(err, jetstream.ErrStreamNotFound) {
		return
	}
	if m.markBucketLost() {
		detail := "the bucket " + Bucket + " was deleted; creating it again"
		m.cfg.Log.Error().Msg(detail)
		m.cfg.OnEvent("members.lost", detail)
	}
	m.mu.Lock()
	highest := m.highestTerm
	m.mu.Unlock()
	if _, err := openBucket(ctx, m.kv.Client, highest, m.cfg.Runtime, m.cfg.Log); err == nil {
		m.mu.Lock()
		m.stale = true
		m.mu.Unlock()
	}
}

// resyncIfStale reads the bucket again if a change was missed.
func (m *Members) resyncIfStale() {
	m.mu.Lock()
	stale := m.stale
	m.mu.Unlock()
	if !stale {
		return
	}
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	ctx, cancel := m.requestContext()
	defer cancel()
	if err := m.resync(ctx); err != nil && m.ctx.Err() == nil {
		m.cfg.Log.Debug().Err(err).Msg("reading the members failed; retrying")
	}
}

// expireSilent deletes silent members: after SilentFor if this node can judge the silence, and
// sooner if the member's address refuses connections.
func (m *Members) expireSilent() {
	now := m.now()
	var silent, quiet []entry
	m.mu.Lock()
	if !m.stale && m.self != nil {
		quiet = m.view.silent(m.self.GetId(), now, 2*m.cfg.RenewEvery)
	}
	if m.health.canSuspect(now) {
		for len(quiet) > 0 && now.Sub(quiet[0].firstSeen) >= m.cfg.SilentFor {
			silent, quiet = append(silent, quiet[0]), quiet[1:]
		}
	}
	m.mu.Unlock()
	for _, e := range append(silent, m.probeRefused(quiet)...) {
		m.deleteMember(e, now)
	}
}

func (m *Members) deleteMember(e entry, now time.Time) {
	ctx, cancel := m.requestContext()
	defer cancel()
	revision, err := m.kv.removeMember(ctx, e.member, e.revision)
	switch {
	case err == nil:
		m.cfg.Log.Warn().Str("member", e.memberID()).Dur("silent_for", now.Sub(e.firstSeen)).Msg("member declared dead")
		m.update(entry{key: e.key, revision: revision, firstSeen: m.now()})
	case errors.Is(err, errConflict): // it has renewed, or another node was faster
		if e, err := m.kv.get(ctx, e.key); err == nil {
			m.update(e)
		}
	default:
		m.renewFailed()
	}
}
