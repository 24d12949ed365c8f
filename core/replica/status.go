package replica

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"troupe/core/kv"
	"troupe/core/lora"
)

const (
	announceEvery    = 300 * time.Millisecond
	announceBytes    = 4 << 10 // limit of block changes in one announcement; the rest follows in later ones
	fingerprintBytes = 8       // of one block in an announcement
)

// Status is what the replica reports.
type Status struct {
	State         State
	Steps         uint64
	Totals        Totals
	LastNotFinite string // model or adapter of the last sequence with non-finite logits, and the time
	FoundRevision string
	FolderFault   string
	Departures    Departures // while it drains
	Fault         *Fault     // nil: none

	Running, Waiting int
	Mapped           bool // the blocks are adopted, so Blocks is set
	Blocks           kv.Stats
	PinnedBlocks     int

	TakesAdapters bool
	Awaited       int // pins without an answer
	Adapters      []AdapterStatus
}

// AdapterStatus describes an adapter that is on the device or in host memory.
type AdapterStatus struct {
	Key string
	lora.Location
	Sequences int  // number of sequences that use the adapter or wait for it
	Pinned    bool // pinned by the operator
}

// Status returns the replica's status.
func (m *Machine) Status() Status {
	s := Status{State: m.state, Steps: m.steps, Totals: m.totals, LastNotFinite: m.lastNotFinite,
		FoundRevision: m.foundRevision, FolderFault: m.folder.reported()}
	if m.leaving() {
		s.Departures = m.departures
	}
	if m.pins != nil {
		s.TakesAdapters, s.Awaited, s.Adapters = true, m.pins.Pending(), m.adapters()
	}
	if m.Faulty() {
		s.Fault = &m.cause
	}
	if m.batch != nil {
		s.Mapped, s.Running, s.Waiting = true, m.batch.Running(), m.batch.Waiting()
		s.Blocks, s.PinnedBlocks = m.pool.Stats(), m.pool.Pinned()
		m.hideCanary(&s)
	}
	return s
}

// adapters returns the adapters on the device or in host memory, by name and revision.
func (m *Machine) adapters() (all []AdapterStatus) {
	for key := range m.pins.Locations() {
		a := AdapterStatus{Key: key, Location: m.pins.Locations()[key], Sequences: m.pins.Users(key)}
		if have, holds := m.pins.PinOf(operatorPin(nameOf(key))); have == key {
			a.Sequences, a.Pinned = a.Sequences-1, holds
		}
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b AdapterStatus) int {
		return cmp.Or(cmp.Compare(nameOf(a.Key), nameOf(b.Key)), cmp.Compare(len(a.Key), len(b.Key)),
			cmp.Compare(a.Key, b.Key))
	})
	return all
}

// nameOf returns the name in an adapter's key, which is followed by '@' and the revision.
func nameOf(key string) string { return key[:max(0, strings.LastIndexByte(key, '@'))] }

// publish reports the status to the deployment and to the router.
func (m *Machine) publish(now time.Time) {
	m.add(Publish{})
	m.announce(false, now)
}

// ReportSoon reports the status soon, at most once per reportEvery.
func (m *Machine) ReportSoon() []Effect {
	m.reportSoon()
	return m.take()
}

func (m *Machine) reportSoon() {
	if !m.reporting {
		m.reporting = true
		m.add(SetTimer{ReportTimer, reportEvery})
	}
}

// AnnounceAll sends the status and all blocks to the router.
func (m *Machine) AnnounceAll(now time.Time) []Effect {
	m.announce(true, now)
	return m.take()
}

func (m *Machine) announceIfDue(now time.Time) {
	if now.Sub(m.announced) >= announceEvery {
		m.announce(false, now)
	}
	m.add(SetTimer{AnnounceTimer, announceEvery})
}

// announce sends the router either the changes of the blocks or, with everything, all blocks.
func (m *Machine) announce(everything bool, now time.Time) {
	if !m.cfg.Router {
		return
	}
	news := kv.Announcement{Snapshot: true}
	if m.announcer != nil {
		if news, _ = m.announcer.Next(); everything && !news.Snapshot {
			news = m.announcer.Snapshot()
		}
	}
	m.announced = now
	m.add(Announce{news})
}
