package members

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	"troupe/cluster/bucket"
	"troupe/messages"
)

// ErrNameTaken reports that another live member has the name.
var ErrNameTaken = errors.New("name is taken")

func idOf(m *messages.Member) string {
	return m.GetName() + "." + strconv.FormatUint(m.GetIncarnation(), 10)
}

// Join makes the node a member with an address at which its actors can be reached, and keeps it a
// member until Leave. If a live member of another instance has the name, Join returns ErrNameTaken.
// If a live member has another wire version, it returns ErrWireVersion. Finding that out takes up to
// Grace.
func (m *Members) Join(ctx context.Context, address string) error {
	if err := m.join(ctx, address); err != nil {
		return err
	}
	m.renewNow() // after writeMu is unlocked: timing must not decide whether the renewal waits for it
	return nil
}

func (m *Members) join(ctx context.Context, address string) error {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	if m.address != "" {
		return fmt.Errorf("node %s has already joined", m.cfg.Name)
	}
	if err := m.checkWireVersions(ctx); err != nil {
		return fmt.Errorf("join as %s: %w", m.cfg.Name, err)
	}
	m.address = address
	if err := m.claimName(ctx); err != nil {
		m.address = ""
		return fmt.Errorf("join as %s: %w", m.cfg.Name, err)
	}
	m.mu.Lock()
	m.health.disconnected(m.now())
	m.mu.Unlock()
	return nil
}

// claimName writes the node's first record once the name is free.
func (m *Members) claimName(ctx context.Context) error {
	since := m.now()
	var first entry
	for readBefore := false; ; readBefore = true {
		var e entry
		if err := m.retryTransient(ctx, func(ctx context.Context) (err error) {
			e, err = m.kv.get(ctx, memberKey(m.cfg.Name))
			return err
		}); err != nil {
			return err
		}
		if !readBefore {
			first = e
		}
		switch decideClaim(first, e, m.cfg.Instance, since, m.now(), m.cfg.Grace) {
		case refuse:
			return fmt.Errorf("%w by the live node at %s; give this node another name with --name",
				ErrNameTaken, e.member.GetAddress())
		case take:
			if err := m.writeFirstRecord(ctx, e); !errors.Is(err, errConflict) && !bucket.IsTransient(err) {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.cfg.Runtime.After(m.cfg.RenewEvery / 4):
		}
	}
}

func (m *Members) writeFirstRecord(ctx context.Context, over entry) error {
	begun := m.now()
	ctx, cancel := m.cfg.Runtime.WithTimeout(ctx, m.cfg.SilentFor/2)
	defer cancel()
	if err := m.writeOver(ctx, m.newRecord(over.member.GetIncarnation()), over.revision); err != nil {
		return err
	}
	m.mu.Lock()
	m.health.renewSucceeded(begun, m.now())
	m.mu.Unlock()
	return nil
}

// SetLeaving marks the node's record as leaving, so that other nodes place nothing new on it.
func (m *Members) SetLeaving(ctx context.Context) error {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	m.leaving = true
	self := m.Self()
	if self == nil {
		return nil
	}
	next := proto.CloneOf(self)
	next.State = messages.MemberState_MEMBER_STATE_LEAVING
	if err := m.write(ctx, next); err != nil {
		return fmt.Errorf("mark node %s as leaving: %w", m.cfg.Name, err)
	}
	return nil
}

// Describe updates the node's record after the values that Config.Describe fills in have changed.
func (m *Members) Describe(ctx context.Context) error {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	self := m.Self()
	if self == nil {
		return nil // the record of the next incarnation will include the change
	}
	next := proto.CloneOf(self)
	m.cfg.Describe(next)
	if err := m.write(ctx, next); err != nil {
		return fmt.Errorf("update the record of node %s: %w", m.cfg.Name, err)
	}
	return nil
}

// Leave deletes the node's leases and its record. Afterwards the node is not a member, but follows
// the others until Close.
func (m *Members) Leave(ctx context.Context) error {
	m.writeMu.Lock()
	defer m.writeMu.Unlock()
	m.mu.Lock()
	self, at, held := m.self, m.revision, m.view.leasesOf(m.self.GetId())
	m.self = nil
	m.mu.Unlock()
	m.address = ""
	if self == nil {
		return nil
	}
	var failed []error
	for _, e := range held {
		failed = append(failed, m.deleteLease(ctx, e.key, e.revision))
	}
	failed = append(failed, m.deleteOwnRecord(ctx, self, at))
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("remove node %s from the members: %w", m.cfg.Name, err)
	}
	return nil
}

// deleteOwnRecord deletes the node's record, even if the reply to its last renewal was lost.
func (m *Members) deleteOwnRecord(ctx context.Context, self *messages.Member, at uint64) error {
	for {
		revision, err := m.kv.removeMember(ctx, self, at)
		if err == nil {
			m.update(entry{key: memberKey(self.GetName()), revision: revision, firstSeen: m.now()})
			return nil
		}
		if !errors.Is(err, errConflict) {
			return err
		}
		e, err := m.kv.get(ctx, memberKey(self.GetName()))
		if err != nil {
			return err
		}
		if e.memberID() != self.GetId() {
			m.update(e)
			return nil
		}
		at = e.revision
	}
}
