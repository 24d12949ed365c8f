package members

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"google.golang.org/protobuf/types/known/timestamppb"

	"troupe/messages"
)

// run is the node's clock: at each turn it renews the node's own record, reads again what it missed, and deletes who is
// silent.
func (m *Members) run() {
	defer close(m.done)
	turns := time.NewTicker(m.health.tickInterval())
	defer turns.Stop()
	status := m.connStatus
	for {
		hurried := false
		select {
		case <-m.ctx.Done():
			return
		case _, open := <-status:
			if !open { // the connection was closed for good
				status = nil
			}
			m.reconnected()
		case <-m.wake:
			hurried = true
		case <-turns.C:
		}
		m.tick(hurried)
	}
}

func (m *Members) tick(hurried bool) {
	m.mu.Lock()
	stalled := m.health.tick(time.Now())
	dropped, _ := m.changesSub.Dropped() // fails where the connection is closed, and then nothing is told any more
	m.stale = m.stale || stalled || dropped != m.droppedChanges
	m.droppedChanges = dropped
	due := hurried || m.health.renewDue(time.Now())
	m.mu.Unlock()
	if stalled {
		m.cfg.Log.Warn().Dur("longer_than", m.cfg.SilentFor).Msg("this node stood still; others may have taken it for dead")
	}
	if !m.conn.IsConnected() {
		m.renewFailed()
		return
	}
	if due {
		m.renew()
	}
	m.resyncIfStale()
	m.expireSilent()
}

// reconnected is called when the connection is back: changes were missed meanwhile.
func (m *Members) reconnected() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.health.disconnected(time.Now())
	m.stale = true
}

// failed notes that a renewal failed, and reports whether it is the first one.
func (m *Members) renewFailed() (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = !m.health.healthySince.IsZero()
	m.health.renewFailed(time.Now())
	return first
}

// within bounds one question to NATS: a renewal that takes longer counts as failed.
func (m *Members) requestContext() (context.Context, context.CancelFunc) {
	return context.WithTimeout(m.ctx, m.cfg.SilentFor/2)
}

// renew writes the node's record again, or joins again where it was fenced.
func (m *Members) renew() {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	if m.address == "" {
		return
	}
	begun := time.Now()
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
			m.cfg.Log.Warn().Err(err).Msg("this node's membership could not be renewed; it goes on trying, and takes nobody for dead meanwhile")
		}
		if errors.Is(err, ErrNameTaken) { // it was answered
			m.mu.Lock()
			m.health.failingSince = time.Time{}
			m.mu.Unlock()
		}
		m.recreateBucket(err)
		return
	}
	m.mu.Lock()
	m.health.renewSucceeded(begun, time.Now())
	restored := m.bucketLost
	m.bucketLost = false
	m.mu.Unlock()
	if restored {
		m.cfg.Log.Info().Msg("this node is a member again")
		m.cfg.OnEvent("members.restored", "this node is a member again")
	}
}

// lose notes that the bucket is gone, and reports whether that is new.
func (m *Members) markBucketLost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := !m.bucketLost
	m.bucketLost = true
	return news
}

// write writes the node's record over the revision it wrote last. The caller holds writeMu.
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
	m.update(entry{key: memberKey(m.cfg.Name), revision: revision, member: self, firstSeen: time.Now()})
	return nil
}

// resolveConflict finds out why the record is not at the revision that this node wrote last.
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
	m.cfg.Log.Warn().Str("member", self.GetId()).Msg("this node was taken for dead and is fenced; it joins again")
	m.mu.Lock()
	m.self, m.stale = nil, true
	m.health.disconnected(time.Now())
	m.mu.Unlock()
	m.update(e)
	return m.rejoin(ctx)
}

// rejoin makes the node a member again, as a new incarnation, unless somebody has its name now. What it knew is read anew
// before.
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
				Msg("this node can not join again: that one has its name; stop one of them, or give it another --name")
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

// record is that of a new incarnation, later than the last one of its name.
func (m *Members) newRecord(last uint64) *messages.Member {
	now := time.Now()
	self := &messages.Member{
		Name: m.cfg.Name, Incarnation: nextIncarnation(now, last), Instance: m.cfg.Instance, Address: m.address,
		State: messages.MemberState_MEMBER_STATE_UP, Started: timestamppb.New(now),
	}
	if m.leaving {
		self.State = messages.MemberState_MEMBER_STATE_LEAVING
	}
	self.Id = idOf(self)
	m.cfg.Describe(self)
	return self
}

// repair makes a bucket again that is gone, once renewals fail for longer than an election takes.
func (m *Members) recreateBucket(failure error) {
	m.mu.Lock()
	lost := m.health.bucketLost(time.Now())
	m.mu.Unlock()
	if !lost || !errors.Is(failure, jetstream.ErrNoStreamResponse) && !errors.Is(failure, jetstream.ErrStreamNotFound) {
		return
	}
	if m.markBucketLost() {
		detail := "the bucket " + Bucket + " was deleted; it is made again"
		m.cfg.Log.Error().Msg(detail)
		m.cfg.OnEvent("members.lost", detail)
	}
	m.mu.Lock()
	highest := m.highestTerm
	m.mu.Unlock()
	ctx, cancel := m.requestContext()
	defer cancel()
	if _, err := openBucket(ctx, m.kv.js, m.cfg.Replicas, highest, m.cfg.Log); err == nil {
		m.mu.Lock()
		m.stale = true
		m.mu.Unlock()
	}
}

// resyncIfStale reads the bucket again where a change was missed.
func (m *Members) resyncIfStale() {
	m.mu.Lock()
	behind := m.stale
	m.mu.Unlock()
	if !behind {
		return
	}
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	ctx, cancel := m.requestContext()
	defer cancel()
	if err := m.resync(ctx); err != nil && m.ctx.Err() == nil {
		m.cfg.Log.Debug().Err(err).Msg("members not read again yet")
	}
}

// reap deletes the members that are silent: those that were for long, as far as this node can judge that, and sooner those
// at whose address nobody listens any more.
func (m *Members) expireSilent() {
	now := time.Now()
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
	revision, err := m.kv.remove(ctx, e.key, e.revision)
	switch {
	case err == nil:
		m.cfg.Log.Warn().Str("member", e.memberID()).Dur("silent_for", now.Sub(e.firstSeen)).Msg("member is dead")
		m.update(entry{key: e.key, revision: revision, firstSeen: time.Now()})
	case errors.Is(err, errConflict): // it lives, or somebody was quicker
		if e, err := m.kv.get(ctx, e.key); err == nil {
			m.update(e)
		}
	default:
		m.renewFailed()
	}
}
