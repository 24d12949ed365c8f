package preempt

// The actions of the table. Each runs after the machine has entered the next phase.

func (m *Machine) fence(event) { m.emit(Fence{}) }

func (m *Machine) migrate(e event) {
	m.target = m.untried(e.targets)
	m.tried = append(m.tried, m.target)
	m.round++
	m.emit(Migrate{m.target, m.round})
}

func (m *Machine) migrateAgain(event) { m.emit(Migrate{m.target, m.round}) }

// await waits for the sequences to finish. All targets may be tried again.
func (m *Machine) await(e event) {
	m.tried = nil
	m.emit(SetTimer{m.deadline.Sub(e.now)})
}

func (m *Machine) save(event) { m.emit(Save{}) }

func (m *Machine) saved(e event) {
	m.blocks, m.detail = e.blocks, e.detail
	m.emit(Free{})
}

func (m *Machine) lost(e event) {
	m.detail = e.detail + "; its sequences continue elsewhere or are computed again"
	m.emit(Free{})
}

func (m *Machine) freeUnfenced(e event) {
	m.detail = "the replica did not answer until its deadline; its sequences are computed again"
	m.emit(Free{})
}

func (m *Machine) freeUnsaved(event) {
	m.detail = "the KV blocks were not saved within " + saveTimeout.String() + "; they are computed again"
	m.emit(Free{})
}

func (m *Machine) free(event) { m.emit(Free{}) }

func (m *Machine) end(event) {}

func (m *Machine) gone(e event) { m.detail = e.detail }
