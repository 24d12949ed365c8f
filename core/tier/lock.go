package tier

import (
	"slices"

	"troupe/core/kv"
)

// lock is a LockBlocks request that was granted slots to read.
type lock struct {
	state State
	slots []Slot
}

// Lock requests to read blocks, in the order of their prompt.
func (m *Machine) Lock(id string, from Actor, hashes []kv.Hash) []Effect {
	if l := m.locks[id]; l != nil {
		if m.move(Lock, id, &l.state, repeated) {
			m.emit(AnswerLock{from, id, l.slots})
		}
		return m.end()
	}
	l := &lock{}
	for _, h := range slices.Backward(hashes) { // last block first, as eviction policies expect
		if slot, ok := m.read(h); ok {
			l.slots = append(l.slots, Slot{slot, h})
		}
	}
	how := missed
	if len(l.slots) > 0 {
		how, m.locks[id] = locked, l
	}
	if m.move(Lock, id, &l.state, how) {
		m.emit(AnswerLock{from, id, l.slots})
	}
	return m.end()
}

// read looks up a block and starts a read of its slot.
func (m *Machine) read(h kv.Hash) (int32, bool) {
	m.tier.Lookup([]kv.Hash{h})
	return m.tier.Read(h)
}

// Unlock ends a lock. damaged lists the blocks that were found damaged.
func (m *Machine) Unlock(id string, damaged []kv.Hash) []Effect {
	l := m.locks[id]
	if l == nil {
		l = &lock{}
	}
	if !m.move(Lock, id, &l.state, unlocked) {
		return m.end()
	}
	delete(m.locks, id)
	for _, h := range damaged {
		m.drop(h)
	}
	for _, s := range l.slots {
		m.tier.Done(s.Slot)
	}
	return m.end()
}

// flush is a FlushBlocks request whose slots are being erased, so that a later incarnation does not
// find the blocks in them. The slots are not reused before they are erased.
type flush struct {
	state State
	from  Actor
	slots []int32
}

// Flush drops the blocks that are neither in use nor pinned.
func (m *Machine) Flush(id string, from Actor) []Effect {
	if f := m.flushes[id]; f != nil {
		if m.move(Flush, id, &f.state, repeated) {
			f.from = from
		}
		return m.end()
	}
	f := &flush{from: from}
	if m.move(Flush, id, &f.state, flushed) {
		f.slots, m.flushes[id] = m.tier.Flush(), f
		m.emit(Erase{id, slices.Clone(f.slots)})
	}
	return m.end()
}

// Erased ends a flush. fault is the reason why some slots were not erased; "" if all were.
func (m *Machine) Erased(id, fault string) []Effect {
	f := m.flushes[id]
	if f == nil {
		f = &flush{}
	}
	if !m.move(Flush, id, &f.state, erased) {
		return m.end()
	}
	delete(m.flushes, id)
	for _, slot := range f.slots {
		m.tier.Done(slot)
	}
	m.emit(AnswerFlush{f.from, id, len(f.slots), fault})
	return m.end()
}
