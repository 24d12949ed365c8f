package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const maxCommands = 16 // commands whose results are kept

// Command is a MigrateSequences command.
type Command struct {
	RequestID string
	From      Actor    // receives the answer; zero: no answer is sent
	Target    string   // name of the target replica
	To        Actor    // address of the target replica; zero: unknown
	IDs       []string // empty: all sequences of the replica
	Term      uint64   // 0: an operator's command
	Cause     string
}

// command is a command in progress, or one that was answered.
type command struct {
	Command
	state   CommandState
	waiting []string // sequences whose migration has not started
	active  int      // number of sequences that are migrating
	reports []Report
}

// CommandState is the state of a command.
type CommandState uint8

// States of a command.
const (
	InProgress CommandState = iota // sequences wait or migrate
	Answered                       // the result does not change
)

func (s CommandState) String() string { return [...]string{"in progress", "answered"}[s] }

// Command handles a command. all are the sequences of the replica. A repeated command gets the same
// answer as the first.
func (m *Source) Command(c Command, all []string) []Effect {
	for _, known := range m.commands {
		if known.RequestID == c.RequestID {
			if known.From = c.From; known.state == Answered {
				m.emit(AnswerCommand{c.From, c.RequestID, known.reports})
			}
			return m.take()
		}
	}
	if why := m.check(c); why != nil {
		m.emit(RefuseCommand{c.From, c.RequestID, *why})
		return m.take()
	}
	m.term = max(m.term, c.Term)
	ids := c.IDs
	if len(ids) == 0 {
		ids = slices.Sorted(slices.Values(all))
	}
	if len(m.commands) == maxCommands {
		m.commands = m.commands[1:]
	}
	m.commands = append(m.commands, &command{Command: c, waiting: slices.Clone(ids)})
	m.emit(StartNext{})
	return m.take()
}

func (m *Source) check(c Command) *Refusal {
	switch {
	case m.plane == NotOpen || m.plane == PlaneOff:
		return &Refusal{NotReady, "replica " + m.cfg.Name + " is not serving yet", retrySoon}
	case m.plane == NoPlane:
		return &Refusal{Unsupported, "replica " + m.cfg.Name + " has no data plane to move KV blocks over", 0}
	case c.Term != 0 && c.Term < m.term:
		return &Refusal{StaleTerm, fmt.Sprintf("stale term %d for replica %s (current %d)", c.Term, m.cfg.Name, m.term),
			0}
	case c.Target == "" || c.To == Actor{} || c.To == m.cfg.Self:
		return &Refusal{Invalid, "name another replica of the model as the target", 0}
	case len(m.commands) == maxCommands && m.commands[0].state == InProgress:
		return &Refusal{QueueFull, "replica " + m.cfg.Name + " has the maximum number of migrations in progress",
			retryQueueFull}
	}
	return nil
}

// Waiting returns the sequences that wait to migrate, in the order of Start. It is nil if no
// command is in progress.
func (m *Source) Waiting() (ids []string) {
	if !m.waits() {
		return nil
	}
	known := make(map[string]bool)
	for _, c := range m.commands {
		for _, id := range c.waiting {
			if !known[id] {
				known[id], ids = true, append(ids, id)
			}
		}
	}
	return ids
}

// waits reports whether a sequence waits to migrate.
func (m *Source) waits() bool {
	return slices.ContainsFunc(m.commands, func(c *command) bool { return len(c.waiting) > 0 })
}

// Start starts as many migrations as the limit allows and answers the commands that have ended. all
// has the state of the sequences of Waiting.
func (m *Source) Start(all []Sequence, now time.Time) []Effect {
	at := make(map[string]int, len(all))
	for i, s := range all {
		at[s.ID] = i
	}
	for _, c := range m.commands {
		c.waiting = slices.DeleteFunc(c.waiting, func(id string) bool {
			i, known := at[id]
			if !known {
				return false
			}
			o := &outgoing{Key: Key{ID: id}, command: c, report: Report{ID: id}}
			m.on(o, event{kind: Started, sequence: all[i], now: now})
			return o.state != Waiting
		})
		if c.state == Answered || len(c.waiting) > 0 || c.active > 0 {
			continue
		}
		c.state = Answered
		slices.SortFunc(c.reports, func(a, b Report) int { return cmp.Compare(a.ID, b.ID) })
		if c.From != (Actor{}) {
			m.emit(AnswerCommand{c.From, c.RequestID, c.reports})
		}
	}
	return m.take()
}

func (m *Source) notHere(_ *outgoing, e event) bool { return !e.sequence.Here }

func (m *Source) migrating(o *outgoing, _ event) bool { return m.outgoing[o.ID] != nil }

func (m *Source) full(*outgoing, event) bool { return len(m.outgoing) >= maxOutgoing }

func (m *Source) queued(_ *outgoing, e event) bool { return e.sequence.Queued }

// unready reports whether the sequence can only migrate after its next step has ended.
func (m *Source) unready(_ *outgoing, e event) bool {
	return e.sequence.Tokens == 0 || e.sequence.Restoring
}

// wait leaves the sequence waiting until the next step has ended.
func (m *Source) wait(*outgoing, event) {}

func (m *Source) reportGone(o *outgoing, _ event) { o.reject("not on this replica, or finished") }

func (m *Source) reportMigrating(o *outgoing, _ event) { o.reject("already migrating") }

// reject reports that the migration of a sequence does not start.
func (o *outgoing) reject(why string) {
	o.report.Detail = why
	o.command.reports = append(o.command.reports, o.report)
}
