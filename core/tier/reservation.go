package tier

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/kv"
)

const (
	// reservationTimeout is how long a reservation waits for a slab. It is shorter than the time
	// that the requester waits for the answer.
	reservationTimeout = time.Second
	maxReservations    = 64 // maximum number that wait; further reservations get no slots
)

// reservation is a ReserveSlots request.
type reservation struct {
	id     string
	state  State
	from   Actor
	hashes []kv.Hash
	bytes  int // size of a block
	slots  []Slot
	held   []kv.Hash
}

// Reserve requests slots for blocks of the given size, listed in reverse prompt order.
func (m *Machine) Reserve(id string, from Actor, hashes []kv.Hash, bytes int) []Effect {
	if r := m.reservations[id]; r != nil {
		m.reserveAgain(r, from)
		return m.end()
	}
	r := &reservation{id: id, from: from, hashes: hashes, bytes: bytes}
	if m.cfg.Limits.Slabs.Fit(bytes) == 0 {
		if m.move(Reservation, id, &r.state, refused) {
			m.emit(RefuseReserve{from, id, fmt.Sprintf("blocks of %d bytes do not fit in tier %s (largest block: %d); "+
				"enlarge the tier", bytes, m.cfg.Name, m.cfg.Limits.Slabs.Largest())})
		}
		return m.end()
	}
	if m.reserve(r) && len(m.waiting) < maxReservations {
		m.enqueue(r)
	} else {
		m.answerReserve(r)
	}
	m.demote()
	return m.end()
}

// reserveAgain handles a repeated request.
func (m *Machine) reserveAgain(r *reservation, from Actor) {
	if !m.move(Reservation, r.id, &r.state, repeated) {
		return
	}
	r.from = from
	if r.state == Granted {
		m.emit(AnswerReserve{r.from, r.id, r.slots, r.held})
	}
}

// reserve takes slots for as many of the missing blocks as possible. waits reports whether it got
// no slot yet and the tier has none of the blocks.
func (m *Machine) reserve(r *reservation) (waits bool) {
	r.slots, r.held = nil, nil
	for _, h := range r.hashes {
		switch m.tier.State(h) {
		case kv.Absent:
			slot, dropped, ok := m.tier.Reserve(h, r.bytes)
			if len(dropped) > 0 {
				m.emit(Dropped{len(dropped), dropped[0].Why})
			}
			if ok {
				r.slots = append(r.slots, Slot{slot, h})
			} else {
				waits = m.tier.Reassigning(r.bytes)
			}
		case kv.Resident, kv.Leaving:
			m.tier.Touch([]kv.Hash{h}) // the requester relies on the tier's copy
			r.held = append(r.held, h)
		}
	}
	return waits && len(r.slots)+len(r.held) == 0
}

// enqueue makes a reservation wait.
func (m *Machine) enqueue(r *reservation) {
	if m.move(Reservation, r.id, &r.state, queued) {
		m.reservations[r.id] = r
		m.waiting = append(m.waiting, r)
		m.emit(ExpireReservation{r.id, reservationTimeout})
	}
}

// answerReserve answers a reservation with the slots that it was granted.
func (m *Machine) answerReserve(r *reservation) {
	how := answered
	if len(r.slots) > 0 {
		how = granted
	}
	if !m.move(Reservation, r.id, &r.state, how) {
		return
	}
	if r.state == Granted {
		m.reservations[r.id] = r
	} else {
		delete(m.reservations, r.id)
	}
	m.emit(AnswerReserve{r.from, r.id, r.slots, r.held})
}

// serveWaiting answers the reservations that no longer wait for a slab.
func (m *Machine) serveWaiting() {
	if len(m.waiting) == 0 {
		return
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(r *reservation) bool {
		if m.tier.Reassigning(r.bytes) || m.reserve(r) {
			return false
		}
		m.answerReserve(r)
		return true
	})
	m.demote()
}

// Commit ends a reservation. The blocks in written were written; the others were not.
func (m *Machine) Commit(id string, written []kv.Hash) []Effect {
	r := m.reservations[id]
	if r == nil {
		r = &reservation{}
	}
	if !m.move(Reservation, id, &r.state, committed) {
		return m.end()
	}
	delete(m.reservations, id)
	m.waiting = slices.DeleteFunc(m.waiting, func(w *reservation) bool { return w == r }) // the requester gave up
	for _, s := range r.slots {
		if slices.Contains(written, s.Hash) {
			m.tier.Commit(s.Slot)
		} else {
			m.tier.Abort(s.Slot)
		}
	}
	m.demote()
	return m.end()
}

// ReservationTimeout reports that a reservation has waited for reservationTimeout: the demotion is
// too slow, or blocks are being read for too long. The reservation is answered as if there were no
// tier below.
func (m *Machine) ReservationTimeout(id string) []Effect {
	r := m.reservations[id]
	if r == nil {
		r = &reservation{}
	}
	if !m.move(Reservation, id, &r.state, timedOut) {
		return m.end()
	}
	m.emit(TimedOut{reservationTimeout})
	m.tier.SetLowerAvailable(false)
	m.serveWaiting()
	if m.demotion == Copying {
		m.shift(timedOut) // until the slow demotion ends
	}
	m.tier.SetLowerAvailable(m.lowerAvailable())
	return m.end()
}
