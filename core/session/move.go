package session

func (m *Machine) toReplica(e event) bool { return e.to.Actor == m.replica.Actor }

// cancelStray cancels a sequence that was moved by an earlier replica of the session.
func (m *Machine) cancelStray(e event) { m.emit(Cancel{e.to.Actor, Stray}) }

// follow follows the sequence to another replica. Its answer to the query reveals tokens that were
// lost. Its silence begins now.
func (m *Machine) follow(e event) {
	m.hear(e)
	m.emit(ReportMove{})
	m.detach()
	m.attempt++
	m.assign(e.to)
	m.emit(Watch{e.to.Actor})
	m.emit(Query{e.to.Actor})
	m.setTimer(e, checkInterval)
}
