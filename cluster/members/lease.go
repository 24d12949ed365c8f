package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"troupe/messages"
)

// ErrNotMember says that the node is not, or may no longer be, a live member, and can take no lease.
var ErrNotMember = errors.New("this node is no member just now")

// Holder returns the live member that holds a role, and its term, as this node knows it; no question is asked.
func (m *Members) Holder(role string) (holder *messages.Member, term uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	holder, term = m.view.holder(role)
	return holder, term, holder != nil
}

// Acquire takes a role for this node, and returns the term of its reign; ok is false where another member holds it. The
// holder gets its term again.
func (m *Members) Acquire(ctx context.Context, role string) (term uint64, ok bool, err error) {
	for {
		m.mu.Lock()
		self, certain := m.self, m.health.leaseValid(time.Now())
		over, held, free := m.view.claim(role, self.GetId())
		m.mu.Unlock()
		switch {
		case self == nil || !certain:
			return 0, false, fmt.Errorf("lease %s: %w", role, ErrNotMember)
		case held:
			return over, true, nil
		case !free:
			return 0, false, nil
		}
		e := entry{key: leaseKey(role), lease: &messages.Lease{Name: role, Member: self.GetId()}, firstSeen: time.Now()}
		e.revision, err = m.kv.put(ctx, e.key, e.lease, over)
		if errors.Is(err, errConflict) {
			e, err = m.kv.get(ctx, e.key) // somebody was quicker, or an answer was lost: look again
		}
		if err != nil {
			return 0, false, fmt.Errorf("lease %s: %w", role, err)
		}
		m.update(e)
	}
}

// Release gives up the reign of a term. One that is over already is no error.
func (m *Members) Release(ctx context.Context, role string, term uint64) error {
	if err := m.deleteLease(ctx, leaseKey(role), term); err != nil {
		return fmt.Errorf("lease %s, term %d: %w", role, term, err)
	}
	return nil
}

func (m *Members) deleteLease(ctx context.Context, key string, term uint64) error {
	revision, err := m.kv.remove(ctx, key, term)
	if errors.Is(err, errConflict) {
		return nil
	}
	if err == nil {
		m.update(entry{key: key, revision: revision, firstSeen: time.Now()})
	}
	return err
}
