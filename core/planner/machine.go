package planner

import (
	"time"

	"troupe/core/schedule"
)

// Deployment is a deployment as it was observed.
type Deployment struct {
	Name                     string
	Revision                 uint64 // of its spec in the store
	Replicas                 int    // requested
	MinReplicas, MaxReplicas int
	Ready                    bool          // all requested replicas serve
	Load                     schedule.Load // without Want, Changing and TokenRate
	Tokens                   uint64        // computed by the serving replicas since they started
}

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

type (
	// Acquire acquires the lease of the leader if it is free; Machine.WriteEnd answers.
	Acquire struct{}

	// Observe requests the deployments; Machine.View answers.
	Observe struct{}

	// Scale stores a number of replicas if the deployment still has the revision; Machine.WriteEnd
	// answers.
	Scale struct {
		Name     string
		Revision uint64
		From, To int
		Why      string
	}

	// Ignored reports an event that changed nothing.
	Ignored struct {
		State State
		Event Event
		Why   string
	}
)

func (Acquire) isEffect() {}
func (Observe) isEffect() {}
func (Scale) isEffect()   {}
func (Ignored) isEffect() {}

// Machine decides what a planner does. It is not safe for concurrent use.
type Machine struct {
	state   State
	loads   map[string]*load // by deployment; of this term of leadership
	effects []Effect
	decided *Scale // by the current view; nil: none
}

// load is the observed load of a deployment.
type load struct {
	scaler   *schedule.Scaler
	tokens   uint64 // at the last observation
	observed time.Time
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind        Event
	now         time.Time
	leads       bool
	deployments []Deployment
}

// New returns the machine of a planner that has nothing in flight.
func New() *Machine { return &Machine{loads: make(map[string]*load)} }

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Tick arrives every second.
func (m *Machine) Tick(leads bool, now time.Time) []Effect {
	return m.handle(event{kind: Tick, leads: leads, now: now})
}

// View reports the deployments.
func (m *Machine) View(all []Deployment, leads bool, now time.Time) []Effect {
	return m.handle(event{kind: View, deployments: all, leads: leads, now: now})
}

// WriteEnd reports that an Acquire or a Scale has ended, with or without success.
func (m *Machine) WriteEnd(now time.Time) []Effect { return m.handle(event{kind: WriteEnd, now: now}) }

// handle handles an event, and the decision that a view leads to.
func (m *Machine) handle(e event) []Effect {
	m.apply(e)
	if m.decided != nil {
		m.apply(event{kind: Decided, now: e.now})
	}
	effects := m.effects
	m.effects = nil
	return effects
}

func (m *Machine) emit(e Effect) { m.effects = append(m.effects, e) }

func (m *Machine) observe(event) { m.emit(Observe{}) }

// acquire forgets the loads, which this node does not observe while another one leads.
func (m *Machine) acquire(event) {
	clear(m.loads)
	m.emit(Acquire{})
}

func (m *Machine) nothing(event) {}

// decide looks for the first deployment that needs another number of replicas.
func (m *Machine) decide(e event) {
	for _, d := range e.deployments {
		if d.MinReplicas >= d.MaxReplicas {
			delete(m.loads, d.Name)
			continue
		}
		if want, why := m.loadOf(d).decide(d, e.now); want != d.Replicas {
			m.decided = &Scale{d.Name, d.Revision, d.Replicas, want, why}
			return
		}
	}
}

func (m *Machine) store(event) {
	m.emit(*m.decided)
	m.decided = nil
}

// loadOf returns the load of a deployment; a new one if its range has changed.
func (m *Machine) loadOf(d Deployment) *load {
	l := m.loads[d.Name]
	s := schedule.NewScaler(schedule.Scaling{MinReplicas: d.MinReplicas, MaxReplicas: d.MaxReplicas})
	if l == nil || l.scaler.MinReplicas != s.MinReplicas || l.scaler.MaxReplicas != s.MaxReplicas {
		l = &load{scaler: s}
		m.loads[d.Name] = l
	}
	return l
}

// decide returns the wanted number of replicas.
func (l *load) decide(d Deployment, now time.Time) (want int, why string) {
	seen := d.Load
	seen.Want, seen.Changing = d.Replicas, !d.Ready
	if d.Tokens > l.tokens && !l.observed.IsZero() { // otherwise a replica has stopped
		seen.TokenRate = float64(d.Tokens-l.tokens) / now.Sub(l.observed).Seconds()
	}
	l.tokens, l.observed = d.Tokens, now
	return l.scaler.Scale(now, seen)
}
