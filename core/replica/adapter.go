package replica

import (
	"maps"
	"slices"
	"strings"
	"time"

	"troupe/core/batch"
	"troupe/core/lora"
)

const (
	adapterLookahead = 10                     // sequences at the head of the queue whose adapters are prefetched
	adapterTickEvery = 250 * time.Millisecond // between two checks for waiting sequences while no step ends
)

// adapterMaxWait returns how long a sequence of a class waits for its adapter.
func adapterMaxWait(class int) time.Duration {
	switch batch.Class(class) {
	case batch.Interactive:
		return 10 * time.Second
	case batch.Standard:
		return 30 * time.Second
	}
	return 2 * time.Minute
}

// Want reports that a sequence that may arrive here needs an adapter.
func (m *Machine) Want() []Effect {
	m.want()
	return m.settle()
}

// want leases pages for adapters when the first adapter is needed.
func (m *Machine) want() {
	if m.lease == Unleased {
		m.raise(event{kind: evWanted})
	}
}

// Leased reports that pages are leased for adapters.
func (m *Machine) Leased() []Effect { return m.on(event{kind: evLeased}) }

// LeaseRefused reports that the device refused pages for adapters.
func (m *Machine) LeaseRefused() []Effect { return m.on(event{kind: evLeaseRefused}) }

// PoolReady reports that an incarnation of the adapter pool started.
func (m *Machine) PoolReady() []Effect { return m.on(event{kind: evPoolReady}) }

func (m *Machine) leasePages(*event) { m.add(LeasePages{}, SetTimer{LeaseTimer, retryRequestAfter}) }

func (m *Machine) startPool(*event) { m.add(StartPool{}) }

// leaseRefused ends the sequences that need an adapter.
func (m *Machine) leaseRefused(*event) {
	for _, id := range slices.Sorted(maps.Keys(m.sequences)) {
		if m.sequences[id].adapter != "" {
			m.interrupt(id, Refusal{Reason: Relayed})
			m.drop(id, "no memory for adapters")
		}
	}
	m.add(Advance{})
}

// poolReady sends the pins in effect first, so that the pool evicts no adapter that a step reads.
func (m *Machine) poolReady(*event) {
	held := AdoptPins{}
	for _, p := range m.pins.OnPoolRestart() {
		held.Pins = append(held.Pins, Pin{p.Name, p.Adapter})
	}
	m.add(held)
	if len(m.ahead) > 0 {
		m.add(PrefetchAdapters{slices.Clone(m.ahead)})
	}
	m.add(Advance{})
}

// SyncPins sends the pool the pending pins and, if no step is in flight, the pending unpins. offers
// is the number of migrations that wait for an adapter.
func (m *Machine) SyncPins(offers int) []Effect {
	m.syncPins(offers)
	return m.take()
}

func (m *Machine) syncPins(offers int) {
	if m.offers = offers; m.lease != PoolReady {
		return
	}
	for _, p := range m.pins.Drain(m.Stepping()) {
		if p.Unpin {
			m.add(SendUnpin{p.Name})
			continue
		}
		m.add(SendPin{Pin{p.Name, p.Adapter}})
	}
	// The timer bounds the time that sequences wait for an adapter.
	if !m.InFlight() && m.batch.Waiting()+offers > 0 && !m.adapterTick {
		m.adapterTick = true
		m.add(SetTimer{AdapterTimer, adapterTickEvery})
	}
}

func (m *Machine) adapterTimer(offers int) {
	m.adapterTick = false
	m.offers = offers
	if m.lease != NoAdapters {
		m.pinsChanged()
	}
}

// pinsChanged lets the sequences and migrations continue that wait for an adapter.
func (m *Machine) pinsChanged() {
	if !m.Stepping() {
		m.add(AnswerOffers{})
	}
	m.add(Advance{})
}

// PinResult reports the pool's answer to a pin. An operator's pin that is refused ends: the next command
// requests it again.
func (m *Machine) PinResult(name string, why *lora.Refusal) []Effect {
	if m.lease == NoAdapters {
		return nil
	}
	request, key := m.pins.RequestOf(name)
	if m.pins.OnPinResult(name, why); why != nil && strings.HasPrefix(request, operatorPin("")) {
		m.pins.Unpin(request)
		m.pinFailed(key, why.Detail)
	}
	m.pinsChanged()
	return m.take()
}

// AdaptersChanged reports the new locations of adapters, by adapter key.
func (m *Machine) AdaptersChanged(at map[string]lora.Location) []Effect {
	if m.lease == NoAdapters {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(at)) {
		m.pins.OnState(key, at[key])
	}
	if m.reportSoon(); len(at) > 0 {
		m.add(Advance{})
	}
	return m.take()
}

// operatorPin returns the request id under which an adapter is pinned for the operator: one for
// each name, shared by all its revisions. It belongs to no sequence. The replica does not persist
// these pins: the router repeats the command until the adapter is pinned, including after a
// restart.
func operatorPin(name string) string { return "operator:" + name }

// Apply pins or unpins an adapter for the operator.
func (m *Machine) Apply(a Adapter, pinned bool) []Effect {
	if m.lease == NoAdapters {
		return nil
	}
	request := operatorPin(a.Name)
	have, _ := m.pins.PinOf(request)
	if have != "" && (have != a.Key || !pinned) {
		m.pins.Unpin(request)
	}
	if other := m.checkBase(a); other != nil {
		m.pinFailed(a.Key, other.Detail)
	} else if pinned {
		m.want()
		if _, why := m.pins.Pin(request, a.Key); why != nil {
			m.pins.Unpin(request) // the next command requests it again
			m.pinFailed(a.Key, why.Detail)
		}
	}
	m.reportSoon()
	m.add(Advance{})
	return m.settle()
}

// Prefetch takes over the adapters that the planner wants loaded before they are requested. Those that do not
// fit the weights are left out. The pool learns of the others now, or when it starts.
func (m *Machine) Prefetch(all []Adapter) []Effect {
	if m.lease == NoAdapters {
		return nil
	}
	m.ahead = m.ahead[:0]
	for _, a := range all {
		if m.checkBase(a) == nil {
			m.ahead = append(m.ahead, a.Key)
		}
	}
	if len(m.ahead) == 0 {
		return nil
	}
	if m.lease == PoolReady {
		m.add(PrefetchAdapters{slices.Clone(m.ahead)})
	} else {
		m.want()
	}
	return m.settle()
}

// pinFailed reports that a pin failed, once for each reason.
func (m *Machine) pinFailed(key, why string) {
	if m.failedPins[key] != why {
		m.failedPins[key] = why
		m.add(PinFailed{key, why})
	}
}

// Forget unpins an adapter that is no longer in the catalogue.
func (m *Machine) Forget(a Adapter) []Effect {
	if m.lease != PoolReady {
		return nil
	}
	if have, _ := m.pins.PinOf(operatorPin(a.Name)); have == a.Key {
		m.pins.Unpin(operatorPin(a.Name))
		m.add(Advance{})
	}
	m.add(ForgetAdapter{})
	return m.take()
}
