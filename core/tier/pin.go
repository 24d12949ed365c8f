package tier

import (
	"time"

	"troupe/core/kv"
)

// pinTTL is the lifetime of a replica's pins unless the replica repeats them.
const pinTTL = 10 * time.Second

// pins are the pins of one replica.
type pins struct {
	state   State
	hashes  map[kv.Hash]bool
	version uint64 // number of PinBlocks requests received
}

// Pin replaces the blocks that a replica pins.
func (m *Machine) Pin(replica string, hashes []kv.Hash) []Effect {
	p := m.pins[replica]
	if p == nil {
		p = &pins{}
	}
	if !m.move(Pins, replica, &p.state, pinned) {
		return m.end()
	}
	m.pins[replica] = p
	set := make(map[kv.Hash]bool, len(hashes))
	for _, h := range hashes {
		if !set[h] && !p.hashes[h] { // prefixes may share blocks
			m.tier.Pin(h)
		}
		set[h] = true
	}
	for h := range p.hashes {
		if !set[h] {
			m.tier.Unpin(h)
		}
	}
	p.hashes = set
	p.version++
	m.emit(ExpirePins{replica, p.version, pinTTL})
	return m.end()
}

// PinsTimeout drops a replica's pins, unless the replica has sent pins since that version.
func (m *Machine) PinsTimeout(replica string, version uint64) []Effect {
	p, on := m.pins[replica], expired
	if p == nil {
		p = &pins{}
	}
	if p.version != version {
		on = stale
	}
	if m.move(Pins, replica, &p.state, on) {
		for h := range p.hashes {
			m.tier.Unpin(h)
		}
		delete(m.pins, replica)
	}
	return m.end()
}
