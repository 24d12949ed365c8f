package tier

import (
	"troupe/core/export"
	"troupe/core/kv"
)

const (
	announceBytes = 4 << 10   // maximum size of one announcement
	knownBytes    = 512 << 10 // memory for the blocks of one tier that routers know: the newest 65,536 blocks
	maxSteps      = 10_000    // maximum that one StepsDone counts, to limit its cost
)

// Actor is the address of an actor; the zero value is none.
type Actor = export.Actor

// Slot is a block and its slot.
type Slot struct {
	Slot int32
	Hash kv.Hash
}

// Config is fixed for the life of a machine.
type Config struct {
	Name   string // "dram"
	Limits kv.TierLimits
	Policy string // eviction policy
	Lower  bool   // there is a tier below; without one, evicted blocks are dropped
	Router bool   // there is a router that receives announcements
	Export export.Config
}

// Machine decides what a tier does. It is not safe for concurrent use.
type Machine struct {
	cfg          Config
	tier         *kv.Tier
	announcer    *kv.Announcer
	exports      *export.Machine
	reservations map[string]*reservation // by request id
	waiting      []*reservation          // in order of arrival
	locks        map[string]*lock        // by request id
	flushes      map[string]*flush       // by request id
	pins         map[string]*pins        // by replica

	demotion State
	copies   uint64        // number of copies so far
	copying  []kv.Demotion // in states Copying and Stalled
	due      []kv.Demotion // blocks in state Leaving that are not being copied yet

	damaged uint64
	effects []Effect
}

// Stats describe a tier.
type Stats struct {
	kv.TierStats
	Damaged  uint64 // damaged blocks
	Exported uint64 // exported blocks
	Slabs    int
}

// New returns the machine of an empty tier. It panics if the policy is unknown.
func New(cfg Config) *Machine {
	t, err := kv.NewTier(cfg.Limits, cfg.Policy)
	if err != nil {
		panic(err)
	}
	m := &Machine{
		cfg: cfg, tier: t, announcer: kv.NewAnnouncer(announceBytes, knownBytes), exports: export.New(cfg.Export),
		reservations: make(map[string]*reservation), locks: make(map[string]*lock), flushes: make(map[string]*flush),
		pins: make(map[string]*pins), demotion: Off,
	}
	if cfg.Lower {
		m.demotion = Idle
	}
	m.tier.SetLowerAvailable(m.lowerAvailable())
	return m
}

// Recover adopts a block that an earlier incarnation left in a slot.
func (m *Machine) Recover(slot int32, h kv.Hash, bytes int) { m.tier.Recover(slot, h, bytes) }

// StepsDone advances the clock for idle blocks.
func (m *Machine) StepsDone(steps int) []Effect {
	for range min(steps, maxSteps) {
		m.tier.Tick()
	}
	m.demote()
	return m.end()
}

// Announce announces the changes since the last call or, with everything, all blocks.
func (m *Machine) Announce(everything bool) []Effect {
	m.announcer.Apply(m.tier.Changes())
	if m.cfg.Router {
		a, some := m.announcer.Next()
		if everything && !a.Snapshot {
			a, some = m.announcer.Snapshot(), true
		}
		if some {
			m.emit(Announce{a})
		}
	}
	return m.end()
}

// Stats returns the current statistics.
func (m *Machine) Stats() Stats {
	return Stats{m.tier.Stats(), m.damaged, m.exports.Sent(), m.cfg.Limits.Slabs.Count}
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

// end serves the reservations that no longer have to wait, and returns the effects of the event.
func (m *Machine) end() []Effect {
	m.serveWaiting()
	effects := m.effects
	m.effects = nil
	return effects
}

// drop drops a damaged block.
func (m *Machine) drop(h kv.Hash) {
	if m.tier.Drop(h) {
		m.damaged++
		m.emit(Damaged{h})
	}
}
