package preempt

import (
	"slices"
	"time"
)

const (
	grace       = 10 * time.Second // after the deadline, for a fence or a migration in progress
	saveTimeout = 10 * time.Second // for the copies to the tiers
)

// Machine decides how one replica is preempted. It is not safe for concurrent use.
type Machine struct {
	deadline time.Time
	phase    Phase
	since    time.Time // start of the phase
	times    [phases]time.Duration
	counts   Counts
	blocks   int
	detail   string

	target  string // of the migration command in progress
	round   uint64 // number of migration commands
	tried   []string
	effects []Effect
}

// Counts counts the sequences that have left the replica since it was fenced.
type Counts struct {
	Migrated int
	Finished int
	Requeued int // their sessions wait for another replica
	Saved    int // of those, with their KV blocks in a tier
}

// Progress is the progress of a preemption.
type Progress struct {
	Phase  Phase
	Counts Counts
	Blocks int             // copied to the tiers
	Detail string          // what went wrong; empty if nothing did
	Times  []time.Duration // spent in each phase, by its number; 0 for the current one
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind    Event
	now     time.Time
	targets []string
	round   uint64
	blocks  int
	detail  string
}

// New returns the machine of a preemption whose sequences may finish until the deadline.
func New(deadline time.Time) *Machine { return &Machine{deadline: deadline} }

// Phase returns the current phase.
func (m *Machine) Phase() Phase { return m.phase }

// Progress returns the progress of the preemption.
func (m *Machine) Progress() Progress {
	return Progress{Phase: m.phase, Counts: m.counts, Blocks: m.blocks, Detail: m.detail,
		Times: slices.Clone(m.times[:])}
}

// Count reports the counts of the replica. They start again after a restart of the replica.
func (m *Machine) Count(c Counts) {
	m.counts.Migrated, m.counts.Finished = max(m.counts.Migrated, c.Migrated), max(m.counts.Finished, c.Finished)
	m.counts.Requeued, m.counts.Saved = max(m.counts.Requeued, c.Requeued), max(m.counts.Saved, c.Saved)
}

// Start starts the preemption.
func (m *Machine) Start(now time.Time) []Effect { return m.on(event{kind: StartEvent, now: now}) }

// Fenced reports that the replica accepts no sequences. targets are the replicas that can take its
// sequences, the best first.
func (m *Machine) Fenced(targets []string, now time.Time) []Effect {
	return m.on(event{kind: FencedEvent, targets: targets, now: now})
}

// Migrated reports that the migration command of a round was answered.
func (m *Machine) Migrated(round uint64, targets []string, now time.Time) []Effect {
	return m.on(event{kind: MigratedEvent, round: round, targets: targets, now: now})
}

// Drained reports that the replica has no sequences left.
func (m *Machine) Drained(now time.Time) []Effect { return m.on(event{kind: DrainedEvent, now: now}) }

// Saved reports that all sequences were requeued, the number of blocks that were copied to the
// tiers, and why others were not.
func (m *Machine) Saved(blocks int, detail string, now time.Time) []Effect {
	return m.on(event{kind: SavedEvent, blocks: blocks, detail: detail, now: now})
}

// Lost reports that the replica restarted or stopped, so that it has interrupted its sequences.
func (m *Machine) Lost(why string, now time.Time) []Effect {
	return m.on(event{kind: LostEvent, detail: why, now: now})
}

// Tick arrives every second, and when the timer fires.
func (m *Machine) Tick(targets []string, now time.Time) []Effect {
	return m.on(event{kind: TickEvent, targets: targets, now: now})
}

// Freed reports that the memory is free.
func (m *Machine) Freed(now time.Time) []Effect { return m.on(event{kind: FreedEvent, now: now}) }

// Gone reports that the node of the replica is lost, so that there is nothing to free.
func (m *Machine) Gone(why string, now time.Time) []Effect {
	return m.on(event{kind: GoneEvent, detail: why, now: now})
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }
