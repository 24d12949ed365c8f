package simulate

import (
	"slices"
	"time"

	"troupe/core/deployment"
	"troupe/core/quarantine"
	"troupe/core/router"
)

const (
	tickInterval = time.Second
	// gpuReplyTimeout is how long the planner waits for the status of devices.
	gpuReplyTimeout = 500 * time.Millisecond
	// calmAfter is the time without an event after which the ticks of a deployment that has what it wants are left
	// out until the next event. It is longer than the time after which replicas may move.
	calmAfter = 15 * time.Second
)

// post gives the deployment an event once what is going on has been carried out.
func (m *model) post(e deployment.Event) { m.sim.post(func() { m.handle(e) }) }

// handle gives the deployment an event. Its ticks go on for a while.
func (m *model) handle(e deployment.Event) {
	m.restless = m.sim.key.at.Add(calmAfter)
	m.observe(e)
}

// observe gives the deployment an event that it asks for each second. Its ticks go on if that changes something, or
// if it does not have what it wants.
func (m *model) observe(e deployment.Event) {
	m.is = nil
	effects := m.machine.Handle(e, m.sim.key.at)
	if slices.ContainsFunc(effects, changes) {
		m.restless = m.sim.key.at.Add(calmAfter)
	}
	m.perform(effects)
	if !m.ticking && (m.sim.key.at.Before(m.restless) || !m.settled()) {
		m.ticking = true
		m.sim.after(tickInterval, m.tick)
	}
}

// status returns the status of the deployment, which only an event changes.
func (m *model) status() *deployment.Status {
	if m.is == nil {
		is := m.machine.Status()
		m.is = &is
	}
	return m.is
}

// changes reports whether an effect of a tick shows that something goes on.
func changes(e deployment.Effect) bool {
	switch e.(type) {
	case deployment.AskGPU, deployment.Announce, deployment.Ignored:
		return false
	}
	return true
}

// settled reports whether the deployment has what it wants.
func (m *model) settled() bool {
	switch m.status().Condition {
	case deployment.ConditionReady, deployment.ConditionAsleep, deployment.ConditionStopped,
		deployment.ConditionStandby, deployment.ConditionParked:
		return true
	}
	return false
}

func (m *model) tick() {
	m.ticking = false
	m.reportLoads()
	m.observe(deployment.Tick{})
}

// reportLoads reports the load of all replicas, before the deployment decides.
func (m *model) reportLoads() {
	for _, r := range m.replicas {
		if r.told.state == 0 {
			continue
		}
		r.sync(m.sim.key)
		if e := r.report(); e.Report.Load != r.told.load {
			r.told.load = e.Report.Load
			m.observe(e)
		}
	}
}

// perform carries out the effects of the deployment, in order.
func (m *model) perform(effects []deployment.Effect) {
	s := m.sim
	for _, effect := range effects {
		switch e := effect.(type) {
		case deployment.AskSpec:
			m.post(m.apply())
		case deployment.ListReplicas:
			s.post(func() { m.listReplicas(e.Node) })
		case deployment.AskGPU:
			m.askGPU(e.At)
		case deployment.Inspect:
			m.post(deployment.Inspected{Path: e.Path, Need: m.need()})
		case deployment.StartReplica:
			s.post(func() { m.start(e.Spec) })
		case deployment.AskReplica:
			s.post(func() { m.askReplica(e.Replica, e.Actor) })
		case deployment.StoreLevel:
			s.post(func() { m.wake(e) })
		case deployment.DrainReplica:
			m.tell(e.Replica, e.Node, func(r *replica, now time.Time) { r.perform(r.machine.Drain(now), now) })
		case deployment.SetLevel:
			m.tell(e.Replica, e.Node, func(r *replica, now time.Time) { r.setLevel(e.Standby, now) })
		case deployment.MigrateSequences:
			m.tell(e.Replica, e.Actor.Address, func(r *replica, _ time.Time) { r.migration.migrate(e) })
		case deployment.StopReplica:
			s.post(func() { m.stop(e) })
		case deployment.Announce:
			m.announce()
		default:
			m.performPreemption(effect)
			m.notice(effect)
		}
	}
}

// notice records what happened.
func (m *model) notice(effect deployment.Effect) {
	now, record := m.sim.key.at, &m.sim.record
	switch e := effect.(type) {
	case deployment.Placed:
		record.note(now, "place", "replica", e.Replica, "device", e.At.String(), "why", e.Why)
	case deployment.Retiring:
		record.note(now, "retire", "replica", e.Replica, "why", e.Why)
	case deployment.Stopped:
		record.note(now, "stop", "replica", e.Replica)
	case deployment.Lost:
		record.note(now, "lost", "replica", e.Replica, "node", e.Node)
	case deployment.Terminated:
		record.note(now, "exit", "replica", e.Replica, "why", e.Why)
	case deployment.Faulty:
		record.note(now, "replace", "replica", e.Replica, "why", e.Why)
	case deployment.Failed:
		record.note(now, "fail", "deployment", m.Name, "why", e.Failure.Detail)
	}
}

// tell sends a replica a message, unless its node is lost.
func (m *model) tell(name, node string, do func(r *replica, now time.Time)) {
	m.sim.post(func() {
		if r := m.replica(name, node); r != nil && !r.device.node.lost {
			r.touch()
			do(r, m.sim.key.at)
		}
	})
}

// replica returns a replica. While a node is cut off, another node may have one of the same name.
func (m *model) replica(name, node string) *replica {
	if i := slices.IndexFunc(m.replicas, func(r *replica) bool {
		return r.name == name && r.device.Node == node
	}); i >= 0 {
		return m.replicas[i]
	}
	return nil
}

func (r *replica) setLevel(standby bool, now time.Time) {
	if standby {
		r.perform(r.machine.Standby(now), now)
	} else {
		r.perform(r.machine.Activate(now), now)
	}
}

func (m *model) listReplicas(node string) {
	if n := m.sim.nodes[node]; n.lost {
		return
	}
	list := deployment.ReplicaList{Node: node}
	for _, r := range m.replicas {
		if r.device.Node == node {
			list.Replicas = append(list.Replicas, deployment.Running{Replica: r.name, Spec: r.spec, Actor: r.address()})
		}
	}
	m.handle(list)
}

// askGPU asks a device for its status.
func (m *model) askGPU(at deployment.Location) {
	m.sim.post(func() {
		if d := m.sim.located[at]; !d.node.lost {
			m.observe(deployment.GPUReport{At: at, Quarantined: d.health.State() != quarantine.Healthy})
		}
	})
}

func (m *model) start(spec deployment.ReplicaSpec) {
	if m.sim.nodes[spec.At.Node].lost {
		return
	}
	r, now := m.replica(spec.Name, spec.At.Node), m.sim.key.at
	if r == nil {
		r = m.sim.startReplica(m, spec)
		r.perform(r.machine.Start(now), now)
	}
	m.handle(deployment.Accepted{Replica: spec.Name, Actor: r.address()})
}

func (m *model) askReplica(name string, actor deployment.Ref) {
	if r := m.replica(name, actor.Address); r != nil && r.address() == actor && !r.device.node.lost {
		r.sync(m.sim.key)
		m.handle(r.report())
	}
}

// stop stops a replica and frees its memory.
func (m *model) stop(e deployment.StopReplica) {
	d := m.sim.located[e.At]
	if d.node.lost {
		return
	}
	if r := m.replica(e.Replica, e.At.Node); r != nil {
		r.stop()
	}
	devices := []*device{d}
	for _, other := range m.sim.devices {
		if other != d && other.node == d.node && other.leases[e.Replica] == m {
			devices = append(devices, other)
		}
	}
	m.stopping[lease{e.Replica, d.node}] = stopping{e.Request, devices}
	for _, d := range devices {
		d.changed()
		d.performMemory(d.memory.UnloadAsked(memoryRequest(e.Replica), e.Replica, e.Weights, m.sim.key.at))
	}
}

// announce tells the router the status of the deployment.
func (m *model) announce() {
	is := m.status()
	status := router.Status{Deployment: m.Name, Node: routerNode, Term: 1}
	if f := is.Failure; f != nil && is.Condition == deployment.ConditionFailed {
		status.Failure = router.Refusal{Reason: router.Reason(f.Reason), Detail: f.Detail, RetryAfter: f.RetryAfter}
	}
	switch is.Condition {
	case deployment.ConditionStandby:
		status.Level = "standby"
	case deployment.ConditionParked:
		status.Level = "parked"
	}
	if status != m.announced {
		m.announced = status
		m.sim.performRouter(m.sim.router.StatusReported(status, m.sim.key.at))
	}
}
