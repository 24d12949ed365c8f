package residency

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"troupe/core/hbm"
)

// Machine decides which weights are on one device. It is not safe for concurrent use.
type Machine struct {
	ledger  *hbm.Ledger
	copies  map[uint64]*copied
	last    uint64 // number of the newest copy
	effects []Effect
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind    Event
	now     time.Time
	lease   string
	source  Source
	content Content
	fate    Fate
	why     string
	reader  string
	readers []string
}

// New returns the machine of a device that already holds these copies, without users but with their
// readers. It leases their pages in the ledger of the device. last is the Last of an earlier
// incarnation.
func New(ledger *hbm.Ledger, copies []Copy, last uint64, now time.Time) *Machine {
	m := &Machine{ledger: ledger, copies: make(map[uint64]*copied), last: last}
	for _, c := range copies {
		m.handle(c.Number, event{kind: evRecovered, source: c.Source, content: c.Content, readers: c.Readers,
			now: now})
		m.last = max(m.last, c.Number)
	}
	m.effects = nil
	return m
}

// Want counts a lease as a user of the copy that has what the source asks for, and returns its
// number. If there is no such copy, it will be loaded once it is granted.
func (m *Machine) Want(lease string, s Source, now time.Time) uint64 {
	number := m.Find(s)
	if number == 0 {
		m.last++
		number = m.last
	}
	m.handle(number, event{kind: evWant, lease: lease, source: s, now: now})
	return number
}

// Use counts a lease that an earlier incarnation has opened as a user of its copy.
func (m *Machine) Use(lease string, number uint64, now time.Time) {
	m.handle(number, event{kind: evWant, lease: lease, now: now})
}

// Find returns the number of the copy that has what a source asks for, or 0. Of several, it is the
// one that is ready first.
func (m *Machine) Find(s Source) uint64 {
	var best *copied
	for _, c := range m.sorted() {
		if c.matches(s) && (best == nil || c.state > best.state) {
			best = c
		}
	}
	if best == nil {
		return 0
	}
	return best.number
}

// Grant gives a lease its weights: there is memory for them. Unless they are on the device, they are
// loaded.
func (m *Machine) Grant(lease string, number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evGrant, lease: lease, now: now})
}

// Loaded reports that the memory of a copy is filled.
func (m *Machine) Loaded(number uint64, content Content, now time.Time) []Effect {
	return m.handle(number, event{kind: evLoaded, content: content, now: now})
}

// LoadFailed reports that the load of a copy failed and left nothing in memory.
func (m *Machine) LoadFailed(number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evLoadFailed, now: now})
}

// Activate reports that the replica of a lease serves.
func (m *Machine) Activate(lease string, number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evActivate, lease: lease, now: now})
}

// Standby reports that the replica of a lease no longer serves. The lease keeps the weights.
func (m *Machine) Standby(lease string, number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evStandby, lease: lease, now: now})
}

// Gone reports that a lease no longer uses a copy. The fate is that of a copy without users.
func (m *Machine) Gone(lease string, number uint64, fate Fate, now time.Time) []Effect {
	return m.handle(number, event{kind: evGone, lease: lease, fate: fate, now: now})
}

// Evict releases a copy unless it is in use.
func (m *Machine) Evict(number uint64, why string, now time.Time) []Effect {
	return m.handle(number, event{kind: evEvict, why: why, now: now})
}

// Park releases a copy to the host cache unless it is in use.
func (m *Machine) Park(number uint64, why string, now time.Time) []Effect {
	return m.handle(number, event{kind: evEvict, why: why, fate: Park, now: now})
}

// DropAll releases all copies, those in use when their last lease is gone.
func (m *Machine) DropAll(why string, now time.Time) (all []Effect) {
	for _, c := range m.sorted() {
		if c.state == Resident || c.state == Leaving {
			all = append(all, m.handle(c.number, event{kind: evDrop, why: why, now: now})...)
		}
	}
	return all
}

// Released reports that the memory of a copy is free.
func (m *Machine) Released(number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evReleased, now: now})
}

// ReleaseFailed reports that the memory of a copy could not be freed.
func (m *Machine) ReleaseFailed(number uint64, now time.Time) []Effect {
	return m.handle(number, event{kind: evReleaseFailed, now: now})
}

// handle applies an event to a copy and returns the effects.
func (m *Machine) handle(number uint64, e event) []Effect {
	c := m.copies[number]
	if c == nil {
		c = &copied{number: number}
		m.copies[number] = c
	}
	m.apply(c, e)
	maps.DeleteFunc(m.copies, func(_ uint64, c *copied) bool { return c.state == Absent })
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// Last returns the number of the newest copy.
func (m *Machine) Last() uint64 { return m.last }

// Copies returns all copies, by number.
func (m *Machine) Copies() (all []Copy) {
	for _, c := range m.sorted() {
		all = append(all, c.describe())
	}
	return all
}

// Copy returns a copy.
func (m *Machine) Copy(number uint64) (Copy, bool) {
	c := m.copies[number]
	if c == nil {
		return Copy{}, false
	}
	return c.describe(), true
}

func (m *Machine) sorted() []*copied {
	return slices.SortedFunc(maps.Values(m.copies), func(a, b *copied) int { return cmp.Compare(a.number, b.number) })
}
