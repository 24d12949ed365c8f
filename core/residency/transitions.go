package residency

import "slices"

func (m *Machine) want(c *copied, e event) {
	if c.state == Absent {
		c.source = e.source
	}
	c.spare, c.used = false, e.now
	if c.user(e.lease) == nil {
		c.add(User{Lease: e.lease})
	}
}

// load leases the pages of a copy and starts its load.
func (m *Machine) load(c *copied, e event) {
	m.lease(c)
	m.join(c, e)
	m.emit(Load{c.number, c.source})
}

// lease leases the pages of a copy. The pages must be free.
func (m *Machine) lease(c *copied) {
	if _, short := m.ledger.Lease(owner(c.number), "weights", c.source.Bytes); short != nil {
		panic("residency: weights are granted pages that are not free: " + short.Error())
	}
}

func (m *Machine) join(c *copied, e event) { c.add(User{Lease: e.lease, waits: true}) }

func (m *Machine) ready(c *copied, e event) { m.emit(Ready{e.lease, c.number}) }

// duplicate reports whether another copy has the content of the load that ended.
func (m *Machine) duplicate(c *copied, e event) bool { return m.twin(c, e.content) != nil }

func (m *Machine) twin(c *copied, content Content) *copied {
	for _, other := range m.sorted() {
		if other != c && other.state == Resident && other.source.Layout == c.source.Layout &&
			content.Revision != "" && other.content.Revision == content.Revision {
			return other
		}
	}
	return nil
}

// merge gives the users of a copy to the copy that has the same content.
func (m *Machine) merge(c *copied, e event) {
	into := m.twin(c, e.content)
	m.emit(Merged{c.number, into.number})
	into.spare, into.used = false, e.now
	for _, u := range c.users {
		into.add(User{Lease: u.Lease})
		m.emit(Ready{u.Lease, into.number})
	}
	c.users, c.content = nil, e.content
	m.release(c, e)
}

func (m *Machine) loaded(c *copied, e event) {
	c.content, c.used = e.content, e.now
	for i := range c.users {
		if u := &c.users[i]; u.waits {
			u.waits = false
			m.emit(Ready{u.Lease, c.number})
		}
	}
}

// loadFailed fails all users, also those that have no memory yet.
func (m *Machine) loadFailed(c *copied, _ event) {
	m.ledger.Release(owner(c.number))
	for _, u := range c.users {
		m.emit(Failed{u.Lease})
	}
	c.users = nil
}

func (m *Machine) recovered(c *copied, e event) {
	c.source, c.content, c.used, c.served, c.readers = e.source, e.content, e.now, true, e.readers
	m.lease(c)
}

func (m *Machine) activate(c *copied, e event) {
	c.served, c.spoiled, c.used = true, false, e.now
	c.setServing(e.lease, true)
}

func (m *Machine) standby(c *copied, e event) { c.setServing(e.lease, false) }

func (c *copied) setServing(lease string, serving bool) {
	if u := c.user(lease); u != nil {
		u.Serving = serving
	}
}

func (m *Machine) gone(c *copied, e event) {
	c.remove(e.lease)
	c.used = e.now
	if len(c.users) == 0 {
		c.spare = e.fate == Spare
	}
}

func (m *Machine) goneRelease(c *copied, e event) {
	m.gone(c, e)
	m.release(c, e)
}

// spoil marks a copy whose content is lost. It is released when its last lease is gone.
func (m *Machine) spoil(c *copied, e event) {
	c.served, c.spoiled = false, true
	m.revoke(c, e)
}

func (m *Machine) release(c *copied, e event) {
	if e.why != "" {
		m.emit(Evicted{c.number, e.why})
	}
	m.emit(c.releaseBy(e.fate))
}

func (c *copied) releaseBy(f Fate) Release {
	orKeep := f == ParkOrKeep && c.served
	return Release{c.number, orKeep || f == Park && c.served, orKeep}
}

func (m *Machine) released(c *copied, _ event) { m.ledger.Release(owner(c.number)) }

func (m *Machine) releaseFailed(c *copied, e event) { c.used = e.now }

// Counted returns the bytes of the copies in use, in whole pages. The others can be evicted.
func (m *Machine) Counted() (bytes int64) {
	for _, c := range m.copies {
		if len(c.users) > 0 {
			bytes += pageBytes(c)
		}
	}
	return bytes
}

// Evictable returns the unused copies in eviction order; see evictionOrder.
func (m *Machine) Evictable() (all []Copy) {
	for _, c := range m.sorted() {
		if c.state == Resident && len(c.users) == 0 {
			all = append(all, c.describe())
		}
	}
	slices.SortStableFunc(all, evictionOrder)
	return all
}

// Releasing returns the bytes that are being freed or will be once their readers have ended, in whole
// pages.
func (m *Machine) Releasing() (bytes int64) {
	for _, c := range m.copies {
		if c.state >= Leaving {
			bytes += pageBytes(c)
		}
	}
	return bytes
}

// Empty reports whether no copy uses memory.
func (m *Machine) Empty() bool {
	for _, c := range m.copies {
		if c.state != Wanted {
			return false
		}
	}
	return true
}
