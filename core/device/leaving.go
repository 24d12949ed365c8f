package device

// Leaving reports whether the replica of a lease has no sequences, since it is on standby or gone, and
// whether it has also given back its memory beyond the minimum.
func (m *Memory) Leaving(lease string) (drained, freed bool) {
	h := m.holders[lease]
	switch {
	case h == nil:
		return true, true
	case !h.standby() || h.phase != Resident:
		return false, false
	}
	return true, h.kv.fixed || h.kv.state == Steady && h.model.Blocks <= h.kv.report.MinBlocks
}

// Wanted reports whether the wanted level of a replica is standby; it is not known before its first report.
func (m *Memory) Wanted(lease string) (standby, known bool) {
	h := m.holders[lease]
	if h == nil || h.kv.replica == (Actor{}) {
		return false, false
	}
	return h.kv.report.StandbyWanted, true
}

// Coming reports whether a lease is there, and whether its replica serves, with its engine.
func (m *Memory) Coming(lease string) (loaded, serves bool, with Engine) {
	h := m.holders[lease]
	if h == nil || !h.resident() {
		return false, false, Engine{}
	}
	return true, h.kv.replica != (Actor{}) && h.kv.report.Serving, h.kv.report.Engine
}
