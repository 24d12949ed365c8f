package tier

import (
	"troupe/core/export"
	"troupe/core/kv"
)

// Lease requests blocks for a replica on another node.
func (m *Machine) Lease(r export.Request) []Effect {
	m.export(m.exports.Lease(r))
	return m.end()
}

// Release reports that a replica no longer waits for its blocks.
func (m *Machine) Release(id string) []Effect {
	m.export(m.exports.Release(id))
	return m.end()
}

// ExportEnded ends a transfer; see export.Machine.Ended.
func (m *Machine) ExportEnded(id string, damaged []kv.Hash, fault string) []Effect {
	known := m.exports.State(id) != export.None
	m.export(m.exports.Ended(id, damaged, fault))
	if known {
		m.demote()
	}
	return m.end()
}

// export carries out the export effects that concern slots, and passes on the others.
func (m *Machine) export(effects []export.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case export.Lock:
			m.export(m.exports.Locked(e.Request.ID, m.readLeading(e.Request)))
		case export.Unlock:
			for _, slot := range e.Blocks {
				m.tier.Done(slot)
			}
		case export.Drop:
			for _, h := range e.Hashes {
				m.drop(h)
			}
		default:
			m.emit(Export{e})
		}
	}
}

// readLeading starts reads of the leading blocks of a request that the tier has.
func (m *Machine) readLeading(r export.Request) (slots []int32) {
	for _, h := range r.Hashes {
		slot, ok := m.read(h.Namespaced(r.Space))
		if !ok {
			break
		}
		slots = append(slots, slot)
	}
	return slots
}
