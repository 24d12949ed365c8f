package turns

import (
	"cmp"
	"slices"
	"time"
)

// Config is fixed for the life of a machine. Zero values stand for the defaults.
type Config struct {
	// MaxWait is the wait after which a replica goes first, whatever its class (default 1 s).
	MaxWait time.Duration
	// Lead is how far a deadline or a prompt may put a replica ahead of its fair share (default 200 ms of device
	// time for a weight of 1).
	Lead time.Duration
	// OverdueAfter times the estimate, and at least MinOverdue, is how long a turn may last (default
	// 8 and 2 s).
	OverdueAfter float64
	MinOverdue   time.Duration
	// Granted is the number of turns that earlier machines of the device have granted.
	Granted uint64
}

func (c Config) withDefaults() Config {
	c.MaxWait = cmp.Or(c.MaxWait, time.Second)
	c.Lead = cmp.Or(c.Lead, 200*time.Millisecond)
	c.OverdueAfter = cmp.Or(c.OverdueAfter, 8)
	c.MinOverdue = cmp.Or(c.MinOverdue, 2*time.Second)
	return c
}

// Machine decides the turns on one device. It is not safe for concurrent use.
type Machine struct {
	cfg      Config
	replicas []*replica // by name
	level    map[Class]float64
	holder   *replica // holds a turn that is not overdue; nil: none
	turns    uint64   // granted so far

	effects []Effect
}

// replica is one of the replicas on the device.
type replica struct {
	name    string
	state   State
	request Request           // of the turn that it waits for or holds
	used    map[Class]float64 // virtual time in seconds
	turn    uint64            // held
	since   time.Time         // when it began to wait, or got its turn
	turns   uint64            // granted to it
	waited  time.Duration     // for these turns
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind    Event
	name    string
	now     time.Time
	request Request
	more    bool // Ends: request is its next one
	turn    uint64
	used    time.Duration
}

// New returns a machine for a device that no replica shares.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg.withDefaults(), level: make(map[Class]float64), turns: cfg.Granted}
}

// State returns the state of a replica.
func (m *Machine) State(name string) State {
	if r := m.get(name); r != nil {
		return r.state
	}
	return Absent
}

// Expect adds a replica that an earlier machine of the device had. No turn is granted until it joins
// or leaves, because it may still run a step.
func (m *Machine) Expect(name string, now time.Time) []Effect {
	return m.on(event{kind: Finds, name: name, now: now})
}

// Join adds a replica, or a new incarnation of it.
func (m *Machine) Join(name string, now time.Time) []Effect {
	return m.on(event{kind: Joins, name: name, now: now})
}

// Ask reports that a replica has work.
func (m *Machine) Ask(name string, r Request, now time.Time) []Effect {
	return m.on(event{kind: Asks, name: name, request: r, now: now})
}

// End reports that a replica has ended its turn, in which its steps took used, and has no more work.
func (m *Machine) End(name string, turn uint64, used time.Duration, now time.Time) []Effect {
	return m.on(event{kind: Ends, name: name, turn: turn, used: used, now: now})
}

// EndAndAsk is End followed by Ask, in one event. With two calls, End would grant the next turn to another waiting
// replica before this one has asked, regardless of class and share.
func (m *Machine) EndAndAsk(name string, turn uint64, used time.Duration, next Request, now time.Time) []Effect {
	return m.on(event{kind: Ends, name: name, turn: turn, used: used, request: next, more: true, now: now})
}

// Timer reports that the timer of a turn fired.
func (m *Machine) Timer(name string, turn uint64, now time.Time) []Effect {
	return m.on(event{kind: Fires, name: name, turn: turn, now: now})
}

// Leave removes a replica.
func (m *Machine) Leave(name string, now time.Time) []Effect {
	return m.on(event{kind: Parts, name: name, now: now})
}

// Granted returns the number of turns that this and earlier machines of the device have granted.
func (m *Machine) Granted() uint64 { return m.turns }

func (m *Machine) index(name string) (int, bool) {
	return slices.BinarySearchFunc(m.replicas, name, func(r *replica, name string) int {
		return cmp.Compare(r.name, name)
	})
}

func (m *Machine) get(name string) *replica {
	if i, ok := m.index(name); ok {
		return m.replicas[i]
	}
	return nil
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }
