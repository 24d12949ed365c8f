package replica

import "time"

// A simulator may end several steps at once while they only decode; see batch.Scheduler.RunSteady. The
// machine is then as it would be if each had been reported with StepDone and the next one planned.

// SteadySteps returns how many steps are steady from the one in flight on: each gives a token to each
// of its sequences, and nothing else happens. The next step after them is reported with StepDone. A
// replica that is watched, that shares its turn or that takes adapters has no steady steps.
func (m *Machine) SteadySteps() int {
	if m.step != Running || m.state != Serving || m.turnState != OpenTurn || m.memory != Whole ||
		m.fault != Unwatched || m.check.due || isCanary(m.current.entries) {
		return 0
	}
	return m.batch.SteadySteps(m.current.entries)
}

// RunSteady ends steady steps at the given times, at most SteadySteps, and begins the next one at the
// last of them. Each samples the same tokens, one for each entry. The effects are those of one step,
// without the tokens. The report timer is set by the first step, so the time of its effect may be over;
// see LastReport.
func (m *Machine) RunSteady(ends []time.Time, sampled []uint32) []Effect {
	now := ends[len(ends)-1]
	for _, end := range ends {
		m.measureStep(end)
		m.current.began = end
	}
	for _, e := range m.current.entries {
		m.sequences[e.ID].last = now
	}
	m.totals.TokensOut += uint64(len(ends) * len(m.current.entries))
	if !m.reporting {
		m.reporting = true
		m.add(SetTimer{ReportTimer, reportEvery - now.Sub(ends[0])})
	}
	entries := m.batch.RunSteady(sampled, len(ends), now)
	m.publishBlocks()
	m.steps += uint64(len(ends))
	for range ends {
		m.pool.Tick()
	}
	m.lastStep = now
	m.current = inflight{entries: entries, step: m.steps, began: now}
	m.add(RunStep{m.steps, entries})
	return m.take()
}

// LastReport returns when the report timer fires for the last time until a time, while steps end at the
// given times. due is when the timer that is set fires; zero if none is. It returns zero if none fires.
func LastReport(due time.Time, ends []time.Time, until time.Time) (last time.Time) {
	for _, end := range ends {
		if due.IsZero() || due.Before(end) {
			if !due.IsZero() {
				last = due
			}
			due = end.Add(reportEvery)
		}
	}
	if !due.IsZero() && !due.After(until) {
		last = due
	}
	return last
}

// FitsReport reports whether one report has room for all changes of the blocks that it has to announce,
// and those of a number of steady steps. Then earlier reports may be left out if none reads them.
func (m *Machine) FitsReport(steps int) bool {
	changes := 2 * len(m.current.entries) * (steps/m.cfg.BlockTokens + 2)
	return changes < m.announcer.Room()
}

// Unannounced reports whether changes of the blocks are not announced yet, for example because the last
// announcement had no room for them.
func (m *Machine) Unannounced() bool { return m.announcer != nil && m.announcer.Pending() }
