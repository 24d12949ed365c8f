package preempt

import (
	"slices"
	"time"

	"troupe/core/table"
)

type (
	condition = func(*Machine, event) bool
	action    = func(*Machine, event)

	row   = table.Row[Phase, Event, condition, action]
	guard = table.Guard[condition]
)

const same = table.Same

var (
	busy   = []Phase{Fencing, Migrating, Finishing, Saving}
	begun  = []Phase{Fencing, Migrating, Finishing, Saving, Freeing}
	always = guard{}

	aTarget    = guard{"a target", (*Machine).hasTarget}
	otherRound = guard{"of another round", func(m *Machine, e event) bool { return e.round != m.round }}
	passed     = guard{"deadline passed", func(m *Machine, e event) bool { return !e.now.Before(m.deadline) }}
	overdue    = guard{"overdue", (*Machine).overdue}
)

// rows is the transition table of doc.go.
var rows = table.New("preemption", []row{
	{[]Phase{Created}, StartEvent, always, Fencing, (*Machine).fence, "fence"},

	{[]Phase{Fencing}, FencedEvent, aTarget, Migrating, (*Machine).migrate, "migrate"},
	{[]Phase{Fencing}, FencedEvent, passed, Saving, (*Machine).save, "save"},
	{[]Phase{Fencing}, FencedEvent, always, Finishing, (*Machine).await, "set the timer"},

	{[]Phase{Migrating}, MigratedEvent, otherRound, same, nil, "ignore"},
	{[]Phase{Migrating}, MigratedEvent, aTarget, same, (*Machine).migrate, "migrate"},
	{[]Phase{Migrating}, MigratedEvent, passed, Saving, (*Machine).save, "save"},
	{[]Phase{Migrating}, MigratedEvent, always, Finishing, (*Machine).await, "set the timer"},

	{busy, DrainedEvent, always, Freeing, (*Machine).free, "free"},
	{[]Phase{Saving}, SavedEvent, always, Freeing, (*Machine).saved, "free"},
	{busy, LostEvent, always, Freeing, (*Machine).lost, "free"},

	{[]Phase{Fencing}, TickEvent, overdue, Freeing, (*Machine).freeUnfenced, "free"},
	{[]Phase{Fencing}, TickEvent, always, same, (*Machine).fence, "fence"},
	{[]Phase{Migrating}, TickEvent, overdue, Saving, (*Machine).save, "save"},
	{[]Phase{Migrating}, TickEvent, always, same, (*Machine).migrateAgain, "migrate again"},
	{[]Phase{Finishing}, TickEvent, passed, Saving, (*Machine).save, "save"},
	{[]Phase{Finishing}, TickEvent, aTarget, Migrating, (*Machine).migrate, "migrate"},
	{[]Phase{Finishing}, TickEvent, always, same, (*Machine).fence, "fence"},
	{[]Phase{Saving}, TickEvent, overdue, Freeing, (*Machine).freeUnsaved, "free"},
	{[]Phase{Saving}, TickEvent, always, same, (*Machine).save, "save"},
	{[]Phase{Freeing}, TickEvent, always, same, (*Machine).free, "free"},

	{[]Phase{Freeing}, FreedEvent, always, Ended, (*Machine).end, "-"},
	{begun, GoneEvent, always, Ended, (*Machine).gone, "-"},
})

// on applies the first row that fits an event and returns its effects.
func (m *Machine) on(e event) []Effect {
	r := rows.Find(m.phase, e.kind, func(holds condition) bool { return holds(m, e) })
	if r == nil || r.Do == nil {
		return []Effect{Ignored{m.phase, e.kind}}
	}
	if r.To != same {
		m.enter(r.To, e.now)
	}
	r.Do(m, e)
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) enter(to Phase, now time.Time) {
	if m.phase != Created {
		m.times[m.phase] += now.Sub(m.since)
	}
	m.phase, m.since = to, now
	m.emit(Entered{to})
}

func (m *Machine) untried(targets []string) string {
	for _, t := range targets {
		if !slices.Contains(m.tried, t) {
			return t
		}
	}
	return ""
}

func (m *Machine) hasTarget(e event) bool { return m.untried(e.targets) != "" }

func (m *Machine) overdue(e event) bool {
	if m.phase == Saving {
		return e.now.Sub(m.since) >= saveTimeout
	}
	return !e.now.Before(m.deadline.Add(grace)) && e.now.Sub(m.since) >= grace
}
