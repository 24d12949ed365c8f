package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	"troupe/core/deployment"
	"troupe/core/preempt"
	"troupe/core/schedule"
)

// CommandKind is what an operator commands.
type CommandKind string

// Kinds of commands.
const (
	Scale    CommandKind = "scale"    // a deployment has another number of replicas
	Park     CommandKind = "park"     // its weights leave the devices for the host cache
	Standby  CommandKind = "standby"  // its replicas keep their weights and serve no requests
	Activate CommandKind = "activate" // its replicas serve
	Preempt  CommandKind = "preempt"  // a replica leaves until the deployment is scaled or activated
	Drain    CommandKind = "drain"    // the replicas of a node move to others
	Undrain  CommandKind = "undrain"  // replicas may be placed on it again
)

// Command is what an operator does at a time.
type Command struct {
	At       time.Duration
	Kind     CommandKind
	Name     string        // of the deployment, replica or node
	Replicas int           // Scale
	Deadline time.Duration // Preempt: how long its sequences may go on
}

// operator is the source of what commands store, for the record.
const operator = "by a command"

// command carries out a command, or records why it is refused.
func (s *simulation) command(c Command) {
	var refused string
	switch n := s.nodes[c.Name]; c.Kind {
	case Drain, Undrain:
		s.noteCommand(c, "")
		n.draining = c.Kind == Drain
		s.tellMembers()
		return
	case Preempt:
		refused = s.preempt(c)
	default:
		refused = s.models[c.Name].command(c)
	}
	if refused != "" {
		s.noteCommand(c, refused)
	}
}

func (s *simulation) noteCommand(c Command, refused string) {
	texts := []string{"do", string(c.Kind), "name", c.Name}
	if refused != "" {
		texts = append(texts, "refused", refused)
	}
	s.record.note(s.key.at, "command", texts...)
}

// command stores another number of replicas or another level, with the rules of models.scale, models.park,
// models.standby and models.activate. It returns why it does not.
func (m *model) command(c Command) (refused string) {
	rest := schedule.RestOf(m.wanted, m.MinReplicas, m.MaxReplicas)
	replicas, level := m.wanted, deployment.NoLevel
	switch c.Kind {
	case Scale:
		replicas, level = c.Replicas, m.level
		if refused = m.bound(replicas); refused != "" {
			return refused
		}
		m.preemptions, m.byHand = nil, replicas > 0 && m.MinReplicas < m.MaxReplicas
	case Park:
		level = deployment.Parked
	case Standby:
		if level = deployment.OnStandby; rest != schedule.Awake {
			return fmt.Sprintf("model %s is %v, so it cannot change its level", m.Name, rest)
		}
	case Activate:
		m.byHand = false
		if m.preemptions = nil; rest != schedule.Awake {
			replicas = max(1, m.MinReplicas)
		}
	}
	m.sim.noteCommand(c, "")
	m.store(replicas, level, operator)
	return ""
}

// bound returns why the deployment may not have a number of replicas. If its bounds are equal, they follow it.
func (m *model) bound(replicas int) string {
	switch {
	case replicas == 0:
	case m.MinReplicas == m.MaxReplicas:
		m.MinReplicas, m.MaxReplicas = replicas, replicas
	case replicas < m.MinReplicas || replicas > m.MaxReplicas:
		return fmt.Sprintf("%d replicas are not within min_replicas %d and max_replicas %d", replicas, m.MinReplicas,
			m.MaxReplicas)
	}
	return ""
}

// preempt stores the preemption of a replica, with the rules of replicas.preempt. It returns why it does not.
func (s *simulation) preempt(c Command) (refused string) {
	r := s.named(c.Name)
	if r == nil {
		return "the replica is not there"
	}
	m := r.model
	at := slices.IndexFunc(m.preemptions, func(p deployment.Preemption) bool { return p.Replica == c.Name })
	why := preempt.Check(preempt.Candidate{Replica: c.Name, Model: m.Name,
		Stopping: at >= 0 || replicaStates[r.machine.State()] == deployment.ReplicaDraining,
		Wanted:   m.wanted - len(m.preemptions), MinReplicas: m.MinReplicas, MaxReplicas: m.MaxReplicas})
	if why != (preempt.Refusal{}) {
		return why.Detail
	}
	s.noteCommand(c, "")
	s.preempted++
	m.preemptions = append(slices.Clone(m.preemptions), deployment.Preemption{ID: strconv.Itoa(s.preempted),
		Replica: c.Name, At: r.device.location(), Deadline: s.key.at.Add(cmp.Or(c.Deadline, DefaultDeadline))})
	m.store(m.wanted, m.level, operator)
	return ""
}

// DefaultDeadline is how long the sequences of a replica that is preempted may go on.
const DefaultDeadline = 30 * time.Second

// performPreemption carries out the effects of the deployment that preempt a replica.
func (m *model) performPreemption(effect deployment.Effect) {
	switch e := effect.(type) {
	case deployment.SaveSequences:
		m.tell(e.Replica, e.Node, func(r *replica, now time.Time) { r.perform(r.machine.Save(now), now) })
	case deployment.PreemptAfter:
		m.sim.after(e.After, func() { m.handle(deployment.PreemptTimer{Replica: e.Replica}) })
	case deployment.Preempting:
		m.sim.record.note(m.sim.key.at, "preempting", "replica", e.Replica, "phase", e.Phase.String())
	}
}
