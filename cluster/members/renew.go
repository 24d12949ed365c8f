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
	defer close(m.ended)
	turns := time.NewTicker(m.contact.turn())
	defer turns.Stop()
	status := m.status
	for {
		hurried := false
		select {
		case <-m.life.Done():
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
		m.turn(hurried)
	}
}

func (m *Members) turn(hurried bool) {
	m.mu.Lock()
	stalled := m.contact.tick(time.Now())
	dropped, _ := m.feed.Dropped() // fails where the connection is closed, and then nothing is told any more
	m.behind = m.behind || stalled || dropped != m.dropped
	m.dropped = dropped
	due := hurried || m.contact.due(time.Now())
	m.mu.Unlock()
	if stalled {
		m.cfg.Log.Warn().Dur("longer_than", m.cfg.SilentFor).Msg("this node stood still; others may have taken it for dead")
	}
	if !m.conn.IsConnected() {
		m.failed()
		return
	}
	if due {
		m.renew()
	}
	m.catchUp()
	m.reap()
}

// reconnected is called when the connection is back: changes were missed meanwhile.
func (m *Members) reconnected() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.contact.away(time.Now())
	m.behind = true
}

// failed notes that a renewal failed, and reports whether it is the first one.
func (m *Members) failed() (first bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first = !m.contact.unbroken.IsZero()
	m.contact.failed(time.Now())
	return first
}

// within bounds one question to NATS: a renewal that takes longer counts as failed.
func (m *Members) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(m.life, m.cfg.SilentFor/2)
}

// renew writes the node's record again, or joins again where it was fenced.
func (m *Members) renew() {
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.address == "" {
		return
	}
	begun := time.Now()
	ctx, cancel := m.within()
	defer cancel()
	var err error
	if m.Self() == nil {
		err = m.rejoin(ctx)
	} else {
		err = m.write(ctx, m.Self())
	}
	if errors.Is(err, errRefused) {
		err = m.refused(ctx)
	}
	if err != nil {
		if m.failed() && m.life.Err() == nil {
			m.cfg.Log.Warn().Err(err).Msg("this node's membership could not be renewed; it goes on trying, and takes nobody for dead meanwhile")
		}
		if errors.Is(err, ErrNameTaken) { // it was answered
			m.mu.Lock()
			m.contact.failing = time.Time{}
			m.mu.Unlock()
		}
		m.repair(err)
		return
	}
	m.mu.Lock()
	m.contact.succeeded(begun, time.Now())
	restored := m.lost
	m.lost = false
	m.mu.Unlock()
	if restored {
		m.cfg.Log.Info().Msg("this node is a member again")
		m.cfg.Tell("members.restored", "this node is a member again")
	}
}

// lose notes that the bucket is gone, and reports whether that is new.
func (m *Members) lose() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	news := !m.lost
	m.lost = true
	return news
}

// write writes the node's record over the revision it wrote last. The caller holds writing.
func (m *Members) write(ctx context.Context, self *messages.Member) error {
	m.mu.Lock()
	over := m.revision
	m.mu.Unlock()
	return m.writeOver(ctx, self, over)
}

func (m *Members) writeOver(ctx context.Context, self *messages.Member, over uint64) error {
	revision, err := m.wire.put(ctx, memberKey(m.cfg.Name), self, over)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.self, m.revision = self, revision
	m.mu.Unlock()
	m.learn(entry{key: memberKey(m.cfg.Name), revision: revision, member: self, seen: time.Now()})
	return nil
}

// refused finds out why the record is not at the revision that this node wrote last.
func (m *Members) refused(ctx context.Context) error {
	self := m.Self()
	e, err := m.wire.get(ctx, memberKey(m.cfg.Name))
	if err != nil || self == nil {
		return err
	}
	over, alive := standing(self, e)
	if alive {
		return m.writeOver(ctx, self, over)
	}
	m.cfg.Log.Warn().Str("member", self.GetId()).Msg("this node was taken for dead and is fenced; it joins again")
	m.mu.Lock()
	m.self, m.behind = nil, true
	m.contact.away(time.Now())
	m.mu.Unlock()
	m.learn(e)
	return m.rejoin(ctx)
}

// rejoin makes the node a member again, as a new incarnation, unless somebody has its name now. What it knew is read anew
// before.
func (m *Members) rejoin(ctx context.Context) error {
	if err := m.readAll(ctx); err != nil {
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
	if err := m.writeOver(ctx, m.record(0), e.revision); err != nil {
		return err
	}
	m.mu.Lock()
	m.rejoined = true
	m.mu.Unlock()
	m.tell()
	return nil
}

// record is that of a new incarnation, later than the last one of its name.
func (m *Members) record(last uint64) *messages.Member {
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
func (m *Members) repair(failure error) {
	m.mu.Lock()
	lost := m.contact.bucketLost(time.Now())
	m.mu.Unlock()
	if !lost || !errors.Is(failure, jetstream.ErrNoStreamResponse) && !errors.Is(failure, jetstream.ErrStreamNotFound) {
		return
	}
	if m.lose() {
		detail := "the bucket " + Bucket + " was deleted; it is made again"
		m.cfg.Log.Error().Msg(detail)
		m.cfg.Tell("members.lost", detail)
	}
	m.mu.Lock()
	highest := m.highest
	m.mu.Unlock()
	ctx, cancel := m.within()
	defer cancel()
	if _, err := openWire(ctx, m.wire.js, m.cfg.Replicas, highest, m.cfg.Log); err == nil {
		m.mu.Lock()
		m.behind = true
		m.mu.Unlock()
	}
}

// catchUp reads the bucket again where a change was missed.
func (m *Members) catchUp() {
	m.mu.Lock()
	behind := m.behind
	m.mu.Unlock()
	if !behind {
		return
	}
	m.writing.Lock()
	defer m.writing.Unlock()
	ctx, cancel := m.within()
	defer cancel()
	if err := m.readAll(ctx); err != nil && m.life.Err() == nil {
		m.cfg.Log.Debug().Err(err).Msg("members not read again yet")
	}
}

// reap deletes the members that are silent: those that were for long, as far as this node can judge that, and sooner those
// at whose address nobody listens any more.
func (m *Members) reap() {
	now := time.Now()
	var silent, quiet []entry
	m.mu.Lock()
	if !m.behind && m.self != nil {
		quiet = m.view.silent(m.self.GetId(), now, 2*m.cfg.RenewEvery)
	}
	if m.contact.maySuspect(now) {
		for len(quiet) > 0 && now.Sub(quiet[0].seen) >= m.cfg.SilentFor {
			silent, quiet = append(silent, quiet[0]), quiet[1:]
		}
	}
	m.mu.Unlock()
	for _, e := range append(silent, m.refusing(quiet)...) {
		m.bury(e, now)
	}
}

func (m *Members) bury(e entry, now time.Time) {
	ctx, cancel := m.within()
	defer cancel()
	revision, err := m.wire.remove(ctx, e.key, e.revision)
	switch {
	case err == nil:
		m.cfg.Log.Warn().Str("member", e.memberID()).Dur("silent_for", now.Sub(e.seen)).Msg("member is dead")
		m.learn(entry{key: e.key, revision: revision, seen: time.Now()})
	case errors.Is(err, errRefused): // it lives, or somebody was quicker
		if e, err := m.wire.get(ctx, e.key); err == nil {
			m.learn(e)
		}
	default:
		m.failed()
	}
}
