package replica

import (
	"maps"
	"slices"
	"time"
)

// Departures counts the sequences that have left since the drain began.
type Departures struct {
	Migrated, Finished int
	Requeued           int // interrupted, so that their sessions wait for another replica
	Saved              int // of those, with their blocks in a tier
}

// leaving reports whether the replica accepts no sequences because it is drained or preempted.
func (m *Machine) leaving() bool { return m.state >= Draining && m.state <= Saved }

// saving is the state of a save command.
type saving struct {
	began     bool     // the blocks are being copied
	preempted []string // sequences that were running
	answer    SequencesSaved
}

// Save tells the replica to run no further step, to copy its blocks to the tiers, and to interrupt
// its sequences.
func (m *Machine) Save(now time.Time) []Effect { return m.on(event{kind: evSave, now: now}) }

// BlocksSaved reports the end of SaveBlocks: the number of blocks copied, and why others were not.
func (m *Machine) BlocksSaved(blocks int, fault string, now time.Time) []Effect {
	return m.on(event{kind: evBlocksSaved, n: blocks, id: fault, now: now})
}

func (m *Machine) startSaving(e *event) {
	m.save = saving{}
	m.dropCanary()
	m.enter(e.now)
	m.add(Advance{})
}

func (m *Machine) saveAgain(*event) { m.add(Advance{}) }

// saveBlocks preempts the running sequences between two steps, which identifies their partial blocks
// by a hash too, and then has all blocks copied.
func (m *Machine) saveBlocks(e *event) {
	m.turnEvent(evUnused, e.now)
	if m.save.began {
		return
	}
	m.save.began = true
	for _, p := range m.batch.PreemptBeyond(0) {
		m.save.preempted = append(m.save.preempted, p.ID)
		m.add(Preempted{p.ID, "its replica is preempted"})
	}
	m.publishBlocks()
	m.add(SaveBlocks{})
}

// requeue interrupts all sequences. Their sessions wait until a replica serves again.
func (m *Machine) requeue(e *event) {
	why := Refusal{ReplicaPreempted, m.title() + " was preempted", RetryAfter}
	for _, id := range slices.Sorted(maps.Keys(m.sequences)) {
		m.departures.Requeued++
		if e.id == "" && slices.Contains(m.save.preempted, id) {
			m.departures.Saved++
		}
		m.interrupt(id, why)
		m.drop(id, "its replica was preempted")
	}
	m.save.answer = SequencesSaved{e.n, e.id}
	m.publish(e.now)
	m.answerSave(e)
}

func (m *Machine) answerSave(*event) { m.add(m.save.answer) }
