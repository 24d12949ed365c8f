package replica

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// watchEvery is the interval at which the step in flight and the canary are checked.
const watchEvery = time.Second

// Watch configures the watch over the steps. The zero value turns it off.
type Watch struct {
	StepTimeout time.Duration // the least time after which a step counts as hung; 0: no step does
	HungTimeout time.Duration // time for which a step may hang before the deployment replaces the replica
	Canary      time.Duration // between two canaries of an idle replica; 0: there are none
}

// DefaultWatch is the watch of a node without options. A step of the models that Troupe runs takes
// milliseconds; 5 s leave room for a busy host. A step that has hung for 30 s more rarely ends. A
// canary every 30 s costs an idle replica one step, and finds a fault before a client does.
var DefaultWatch = Watch{StepTimeout: 5 * time.Second, HungTimeout: 30 * time.Second, Canary: 30 * time.Second}

// Fault is why routers avoid a replica that serves.
type Fault struct {
	Detail  string
	Since   time.Time
	Final   bool // the deployment replaces the replica
	Corrupt bool // the replica's answers are wrong
}

// FaultState is the state of the watch over the steps.
type FaultState uint8

// Fault states.
const (
	Unwatched FaultState = iota // the blocks are not adopted, the replica stops, or the watch is off
	Sound                       // no step hangs
	Hung                        // the step in flight takes far longer than expected
	GivenUp                     // it has hung for so long that the deployment replaces the replica
	Corrupt                     // a canary gave a wrong answer; the deployment replaces the replica
)

func (s FaultState) String() string {
	return [...]string{"unwatched", "sound", "hung", "given up", "corrupt"}[s]
}

// Faulty reports whether routers avoid the replica.
func (m *Machine) Faulty() bool { return m.fault > Sound }

// watch sets the timer of the next check.
func (m *Machine) watch(e *event) {
	m.current.stalled += m.stall(e.now)
	m.watchDue = e.now.Add(watchEvery)
	m.add(SetTimer{WatchTimer, watchEvery})
}

// stall returns for how long the timer of the watch has been late while the step in flight ran. A late
// timer shows that this process stalled, and the step with it.
func (m *Machine) stall(now time.Time) time.Duration {
	due := m.watchDue
	if due.IsZero() {
		return 0
	}
	if m.current.began.After(due) {
		due = m.current.began
	}
	return max(0, now.Sub(due))
}

// elapsed returns how long the step in flight has run, without the time of stalls.
func (m *Machine) elapsed(now time.Time) time.Duration {
	return max(0, now.Sub(m.current.began)-m.current.stalled-m.stall(now))
}

// stepBound returns the time after which the step in flight counts as hung.
func (m *Machine) stepBound() time.Duration {
	return m.pace.bound(m.current.tokens(), m.cfg.Watch.StepTimeout)
}

// stepLate reports whether the step in flight takes far longer than expected.
func (m *Machine) stepLate(e *event) bool {
	return m.cfg.Watch.StepTimeout > 0 && m.InFlight() && m.elapsed(e.now) >= m.stepBound()
}

func (m *Machine) hungLong(e *event) bool {
	return e.now.Sub(m.cause.Since) >= m.cfg.Watch.HungTimeout
}

// hang interrupts all sequences, because none of them continues before the step in flight ends.
// Their sessions submit them elsewhere, and the result of the step is ignored.
func (m *Machine) hang(e *event) {
	tokens := m.current.tokens()
	detail := fmt.Sprintf("hung: step %d (tokens: %d) has taken %s", m.current.step, tokens,
		m.elapsed(e.now).Round(time.Millisecond))
	if expected, _ := m.pace.expected(tokens); expected > 0 {
		detail += fmt.Sprintf(" instead of %s", expected.Round(time.Microsecond))
	}
	m.totals.HungSteps++
	m.watch(e)
	m.beginFault(Fault{Detail: detail, Since: e.now})
	m.publish(e.now)
}

// beginFault interrupts all sequences.
func (m *Machine) beginFault(f Fault) {
	m.cause = f
	m.add(FaultBegan{f})
	m.batch.Drop(canaryID)
	for _, id := range slices.Sorted(maps.Keys(m.sequences)) {
		m.interrupt(id, m.faultRefusal())
		m.drop(id, "the replica is faulty")
	}
}

func (m *Machine) faultRefusal() Refusal {
	return Refusal{IsFaulty, m.title() + " is faulty: " + m.cause.Detail, RetryAfter}
}

// giveUp reports a step that has hung for long to the device, which is tested, and to the
// deployment, which replaces the replica.
func (m *Machine) giveUp(e *event) {
	m.watch(e)
	m.cause.Final = true
	m.add(Suspect{m.cause.Detail})
	m.publish(e.now)
}

// learn measures a step that has ended.
func (m *Machine) learn(e *event) {
	m.pace.observe(m.current.tokens(), m.elapsed(e.now), m.stepBound())
}

// recover returns the replica to service after its hung step has ended.
func (m *Machine) recover(e *event) {
	m.learn(e)
	m.add(FaultEnded{m.cause.Detail, e.now.Sub(m.cause.Since)})
	m.cause = Fault{}
	m.publish(e.now)
}

// tokens returns the number of tokens in a step.
func (s *inflight) tokens() (n int) {
	for _, e := range s.entries {
		n += len(e.Tokens)
	}
	return n
}
