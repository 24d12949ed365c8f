package members

import (
	"context"
	"errors"
	"fmt"
)

// ErrWireVersion reports that nodes of another wire version are in the cluster.
var ErrWireVersion = errors.New("another wire version")

// checkWireVersions returns ErrWireVersion if a live member has another wire version than this node.
// A record that is not renewed within Grace is that of a dead node.
func (m *Members) checkWireVersions(ctx context.Context) error {
	since, first := m.now(), m.otherVersions()
	for others := first; len(others) > 0 && m.now().Sub(since) < m.cfg.Grace; others = m.otherVersions() {
		for key, e := range others {
			if e.revision == first[key].revision {
				continue // no renewal since the check began
			}
			return fmt.Errorf("%w: node %s has wire version %d (Troupe %s) and this node has %d; stop all nodes, "+
				"then start them with the same version", ErrWireVersion, e.member.GetName(),
				e.member.GetWireVersion(), e.member.GetVersion(), m.cfg.WireVersion)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.cfg.Runtime.After(m.cfg.RenewEvery / 4):
		}
	}
	return nil
}

// otherVersions returns the records of members with another wire version, by key.
func (m *Members) otherVersions() map[string]entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := make(map[string]entry)
	for key, e := range m.view {
		if e.member != nil && e.member.GetWireVersion() != m.cfg.WireVersion {
			found[key] = e
		}
	}
	return found
}
