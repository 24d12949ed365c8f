package members

import (
	"context"
	"errors"
	"fmt"

	"troupe/messages"
)

// ErrNotMember reports that the node can take no lease because it is not a live member, or may no
// longer be one.
var ErrNotMember = errors.New("this node is not a member at the moment")

// Holder returns the live member that holds a role and its term, from the local view.
func (m *Members) Holder(role string) (holder *messages.Member, term uint64, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	holder, term = m.view.holder(role)
	return holder, term, holder != nil
}

// Acquire takes a role for this node and returns its term. ok is false if another member holds the
// role. If this node already holds it, Acquire returns the current term.
func (m *Members) Acquire(ctx context.Context, role string) (term uint64, ok bool, err error) {
	for {
		m.mu.Lock()
		self, certain := m.self, m.health.leaseValid(m.now())
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
		e := entry{key: leaseKey(role), lease: &messages.Lease{Name: role, Member: self.GetId()}, firstSeen: m.now()}
		e.revision, err = m.kv.put(ctx, e.key, e.lease, over)
		if errors.Is(err, errConflict) {
			e, err = m.kv.get(ctx, e.key) // another node was faster, or a reply was lost
			if err == nil && e.revision < over {
				e, err = m.restoreLease(ctx, e, over)
			}
		}
		if err != nil {
			return 0, false, fmt.Errorf("lease %s: %w", role, err)
		}
		m.update(e)
	}
}

// Release gives up the lease of a role if its term is still the given one. It is no error if that
// term is over.
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
		m.update(entry{key: key, revision: revision, firstSeen: m.now()})
	}
	return err
}

// restoreLease writes a lease as this node knows it over an older revision, which the bucket has
// after it lost the known one. Other keys have later revisions by now, or RaiseTerms is due.
func (m *Members) restoreLease(ctx context.Context, old entry, known uint64) (entry, error) {
	info, err := m.kv.Info(ctx, Bucket)
	if err == nil && info.State.LastSeq < known {
		m.mu.Lock()
		m.stale = true
		m.mu.Unlock()
		err = errors.New("the bucket has lost terms that were in use")
	}
	if err != nil {
		return entry{}, err
	}
	m.mu.Lock()
	e := m.view[old.key]
	m.mu.Unlock()
	e.firstSeen = m.now()
	if e.lease == nil {
		e.revision, err = m.kv.remove(ctx, old.key, old.revision)
	} else {
		e.revision, err = m.kv.put(ctx, old.key, e.lease, old.revision)
	}
	if errors.Is(err, errConflict) {
		return old, nil // another node was faster; its change follows
	}
	return e, err
}
