package members

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/bucket"
	"troupe/messages"
)

// ErrNameTaken says that a live member has the name.
var ErrNameTaken = errors.New("the name is taken")

func idOf(m *messages.Member) string {
	return m.GetName() + "." + strconv.FormatUint(m.GetIncarnation(), 10)
}

// Join makes the node a member whose actors are reached at an address, and keeps it one until Leave. A name that another
// instance has is refused with ErrNameTaken if that one lives, which takes up to Grace to find out.
func (m *Members) Join(ctx context.Context, address string) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	if m.address != "" {
		return fmt.Errorf("node %s has joined already", m.cfg.Name)
	}
	m.address = address
	if err := m.takeName(ctx); err != nil {
		m.address = ""
		return fmt.Errorf("join as %s: %w", m.cfg.Name, err)
	}
	m.mu.Lock()
	m.contact.away(time.Now())
	m.mu.Unlock()
	m.hurry()
	return nil
}

// takeName writes the node's first record, once the name is free.
func (m *Members) takeName(ctx context.Context) error {
	since := time.Now()
	var first entry
	for looked := false; ; looked = true {
		var e entry
		if err := m.patiently(ctx, func(ctx context.Context) (err error) {
			e, err = m.wire.get(ctx, memberKey(m.cfg.Name))
			return err
		}); err != nil {
			return err
		}
		if !looked {
			first = e
		}
		switch admit(first, e, m.cfg.Instance, since, time.Now(), m.cfg.Grace) {
		case refuse:
			return fmt.Errorf("%w by the node at %s, which lives; give this one another with --name", ErrNameTaken, e.member.GetAddress())
		case take:
			if err := m.writeFirst(ctx, e); !errors.Is(err, errRefused) && !bucket.IsTransient(err) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(m.cfg.RenewEvery / 4):
		}
	}
}

func (m *Members) writeFirst(ctx context.Context, over entry) error {
	begun := time.Now()
	ctx, cancel := context.WithTimeout(ctx, m.cfg.SilentFor/2)
	defer cancel()
	if err := m.writeOver(ctx, m.record(over.member.GetIncarnation()), over.revision); err != nil {
		return err
	}
	m.mu.Lock()
	m.contact.succeeded(begun, time.Now())
	m.mu.Unlock()
	return nil
}

// SetLeaving says in the node's record that nothing new should go there.
func (m *Members) SetLeaving(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.leaving = true
	self := m.Self()
	if self == nil {
		return nil
	}
	next := proto.CloneOf(self)
	next.State = messages.MemberState_MEMBER_STATE_LEAVING
	if err := m.write(ctx, next); err != nil {
		return fmt.Errorf("node %s is leaving: %w", m.cfg.Name, err)
	}
	return nil
}

// Describe writes the node's record again, after what Config.Describe fills in has changed.
func (m *Members) Describe(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	self := m.Self()
	if self == nil {
		return nil // the record of the next incarnation will have it
	}
	next := proto.CloneOf(self)
	m.cfg.Describe(next)
	if err := m.write(ctx, next); err != nil {
		return fmt.Errorf("record of node %s: %w", m.cfg.Name, err)
	}
	return nil
}

// Leave deletes the node's leases and its record. From then on it is no member, and follows the others until Close.
func (m *Members) Leave(ctx context.Context) error {
	m.writing.Lock()
	defer m.writing.Unlock()
	m.mu.Lock()
	self, at, held := m.self, m.revision, m.view.heldBy(m.self.GetId())
	m.self = nil
	m.mu.Unlock()
	m.address = ""
	if self == nil {
		return nil
	}
	var failed []error
	for _, e := range held {
		failed = append(failed, m.release(ctx, e.key, e.revision))
	}
	failed = append(failed, m.removeOwn(ctx, self, at))
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("node %s leaves: %w", m.cfg.Name, err)
	}
	return nil
}

// removeOwn deletes the node's record, also where the answer to its last renewal was lost.
func (m *Members) removeOwn(ctx context.Context, self *messages.Member, at uint64) error {
	for {
		revision, err := m.wire.remove(ctx, memberKey(self.GetName()), at)
		if err == nil {
			m.learn(entry{key: memberKey(self.GetName()), revision: revision, seen: time.Now()})
			return nil
		}
		if !errors.Is(err, errRefused) {
			return err
		}
		e, err := m.wire.get(ctx, memberKey(self.GetName()))
		if err != nil {
			return err
		}
		if e.memberID() != self.GetId() {
			m.learn(e)
			return nil
		}
		at = e.revision
	}
}
