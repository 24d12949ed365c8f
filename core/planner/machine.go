package planner

import (
	"time"

	"troupe/core/schedule"
)

// Deployment is the observed state of a deployment.
type Deployment struct {
	Name                     string
	Revision                 uint64 // revision of its spec in the store
	Replicas                 int    // requested number of replicas
	MinReplicas, MaxReplicas int
	Held                     bool          // an operator has set a level
	IdleAfter                time.Duration // without a request, until it goes to sleep; 0: never
	Ready                    bool          // all requested replicas serve
	Load                     schedule.Load // observed load; Want, Changing and TokenRate are not set
	Tokens                   uint64        // computed by the serving replicas since they started
}

// Effect is an action for the caller to carry out. Effects are carried out in order.
type Effect interface{ isEffect() }

type (
	// Acquire acquires the leader's lease if the lease is free. The caller reports
	// Machine.WriteEnd.
	Acquire struct{}

	// Observe requests the deployments. The caller reports Machine.View.
	Observe struct{}

	// Scale stores a number of replicas if the deployment still has the given revision. The caller
	// reports Machine.WriteEnd.
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
	loads   map[string]*load // by deployment; observed in this term of leadership
	effects []Effect
	decided *Scale // decision of the current view; nil: none
}

// load is the observed load of a deployment.
type load struct {
	scaler   *schedule.Scaler
	tokens   uint64 // tokens computed up to the last observation
	observed time.Time
}

// event is one event. Only the fields of its kind are set.
type event struct {
	kind        Event
	now         time.Time
	leads       bool
	deployments []Deployment
}

// New returns the machine of a planner that has no write in flight.
func New() *Machine { return &Machine{loads: make(map[string]*load)} }

// State returns the current state.
func (m *Machine) State() State { return m.state }

// Tick must be called every second.
func (m *Machine) Tick(leads bool, now time.Time) []Effect {
	return m.handle(event{kind: Tick, leads: leads, now: now})
}

// View reports the deployments.
func (m *Machine) View(all []Deployment, leads bool, now time.Time) []Effect {
	return m.handle(event{kind: View, deployments: all, leads: leads, now: now})
}

// WriteEnd reports that an Acquire or a Scale has ended, with or without success.
func (m *Machine) WriteEnd(now time.Time) []Effect { return m.handle(event{kind: WriteEnd, now: now}) }

// handle handles an event, and then the decision that a view leads to.
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

// acquire forgets the loads, which this node does not observe while another planner leads.
func (m *Machine) acquire(event) {
	clear(m.loads)
	m.emit(Acquire{})
}

func (m *Machine) nothing(event) {}

// decide looks for the first deployment that needs another number of replicas.
func (m *Machine) decide(e event) {
	for _, d := range e.deployments {
		if d.Held || d.MinReplicas >= d.MaxReplicas {
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

// loadOf returns the load of a deployment. It starts a new one if the deployment's range has
// changed.
func (m *Machine) loadOf(d Deployment) *load {
	l := m.loads[d.Name]
	s := schedule.NewScaler(schedule.Scaling{
		MinReplicas: d.MinReplicas, MaxReplicas: d.MaxReplicas, IdleAfter: d.IdleAfter,
	})
	if l == nil || l.scaler.MinReplicas != s.MinReplicas || l.scaler.MaxReplicas != s.MaxReplicas ||
		l.scaler.IdleAfter != s.IdleAfter {
		l = &load{scaler: s}
		m.loads[d.Name] = l
	}
	return l
}

// decide returns the wanted number of replicas.
func (l *load) decide(d Deployment, now time.Time) (want int, why string) {
	seen := d.Load
	seen.Want, seen.Changing = d.Replicas, !d.Ready
	switch {
	case l.observed.IsZero() || d.Tokens < l.tokens: // a replica has stopped, and its tokens are missing
		seen.TokenRate = -1
	case d.Tokens > l.tokens:
		seen.TokenRate = float64(d.Tokens-l.tokens) / now.Sub(l.observed).Seconds()
	}
	l.tokens, l.observed = d.Tokens, now
	return l.scaler.Scale(now, seen)
}
