package members

import (
	"slices"
	"strings"
)

// Roles returns all roles that were acquired and not released, in order. The holder of a role may
// be dead.
func (m *Members) Roles() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var roles []string
	for key, e := range m.view {
		if e.lease != nil {
			roles = append(roles, strings.TrimPrefix(key, leaseKey("")))
		}
	}
	slices.Sort(roles)
	return roles
}
