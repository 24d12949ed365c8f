package replica

// keepLevel records the wanted level of a replica that is not serving. It remains valid for later
// incarnations.
func (m *Machine) keepLevel(e *event) {
	m.standby = e.kind == evStandby
	m.add(KeepLevel{m.standby})
}

// suspend stops accepting sequences. The present ones finish, or migrate. The device learns at once that
// the replica is to leave.
func (m *Machine) suspend(e *event) {
	m.keepLevel(e)
	m.dropCanary()
	m.check = check{}
	m.enter(e.now)
	m.sendKVReport()
	m.add(Advance{})
}

// empty enters Standby: the turn goes back, and the device may take back all KV memory beyond the
// minimum.
func (m *Machine) empty(e *event) {
	m.turnEvent(evUnused, e.now)
	m.enter(e.now)
	m.sendKVReport()
}

// activate accepts sequences again, at once: the minimum of KV memory is enough for each of them. The
// device gives memory back as others yield it. A check of the weights begins. The turn on the device is
// requested before the status is published, since the first step waits for it.
func (m *Machine) activate(e *event) {
	m.keepLevel(e)
	m.beginCheck(e.now)
	m.sendKVReport()
	m.add(Advance{})
	m.enter(e.now)
}

// resume accepts a sequence on standby that has begun elsewhere, or before a crash, so that no stream
// is lost because of the level.
func (m *Machine) resume(e *event) {
	m.submit(e)
	m.enter(e.now)
	m.sendKVReport()
	m.add(Advance{})
}
