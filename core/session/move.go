package session

func (m *Machine) toReplica(e event) bool { return e.to.Actor == m.replica.Actor }

// cancelStray cancels a sequence that an earlier replica of the session moved.
func (m *Machine) cancelStray(e event) { m.emit(Cancel{e.to.Actor, Stray}) }

// follow follows the sequence to another replica and queries that replica. The answer reveals
// tokens that were lost. The time without a message from the replica starts now. A silent
// replica that was abandoned before is forgotten.
func (m *Machine) follow(e event) {
	m.hear(e)
	m.emit(ReportMove{})
	m.detach()
	m.attempt++
	m.abandoned = Replica{}
	m.assign(e.to)
	m.emit(Watch{e.to.Actor})
	m.emit(Query{e.to.Actor})
	m.setTimer(e, checkInterval)
}
