package hostcache

import (
	"cmp"
	"slices"
)

// candidates returns the images that may be evicted, the least recently used first.
func (m *Machine) candidates() (all []*image) {
	for _, i := range m.images {
		if i.state == Ready && !i.pinned && len(i.readers) == 0 {
			all = append(all, i)
		}
	}
	slices.SortFunc(all, func(a, b *image) int { return cmp.Compare(a.last, b.last) })
	return all
}

// roomFor returns how many candidates must go to make room for an image, or -1 if all of them are
// not enough.
func (m *Machine) roomFor(bytes int64) int {
	over := m.used + bytes - m.budget
	all := m.candidates()
	for n, i := range all {
		if over <= 0 {
			return n
		}
		over -= i.bytes
	}
	if over > 0 {
		return -1
	}
	return len(all)
}

// evict frees an image to make room.
func (m *Machine) evict(i *image, why string) {
	m.free(i, event{why: why})
	i.state = Absent
	m.leave(i, Ready)
	m.keep(i)
}

// shrink evicts images while the cache is over its budget, which images that could not go have
// caused.
func (m *Machine) shrink() {
	all := m.candidates()
	for n := 0; m.used > m.budget && n < len(all); n++ {
		m.evict(all[n], "over the budget")
	}
}

// Resize changes the budget.
func (m *Machine) Resize(budget int64) []Effect {
	m.budget = budget
	m.shrink()
	effects := m.effects
	m.effects = nil
	return effects
}
