package simulate

import (
	"maps"
	"slices"
	"time"

	"troupe/core/health"
	"troupe/core/loadsource"
	"troupe/core/quarantine"
	core "troupe/core/replica"
	"troupe/core/router"
)

const (
	// nodeSilentAfter is how long after its loss a node counts as silent at the router, and nodeGoneAfter when it is
	// no longer a member of the cluster.
	nodeSilentAfter = time.Second
	nodeGoneAfter   = 1200 * time.Millisecond
)

// planFaults plans the faults and the commands of the scenario.
func (s *simulation) planFaults() {
	for _, c := range s.cfg.Commands {
		s.queue.set(key{epoch.Add(c.At), commanded, s.register(&command{c, s})})
	}
	for _, f := range s.cfg.Faults {
		s.queue.set(key{epoch.Add(f.At), faultBegins, s.register(&fault{f, s})})
	}
}

// fail carries out a fault. A replica that is not there then cannot fail.
func (s *simulation) fail(f Fault) {
	switch r := s.named(f.Replica); {
	case f.Node != "":
		s.nodes[f.Node].fail(f.For)
	case f.Device != "":
		s.deviceNamed(f.Device).fail(f.For)
	case f.Replica == "":
		s.failLink(f)
	case r == nil:
		s.record.note(s.key.at, "fault", "replica", f.Replica, "why", "none: the replica is not there")
	case f.Hangs:
		s.record.note(s.key.at, "fault", "replica", r.name, "why", "a step hangs for "+f.For.String())
		r.hang(f.For)
	default:
		s.record.note(s.key.at, "fault", "replica", r.name, "why", "it crashes")
		r.restart()
	}
}

// deviceNamed returns a device by its full name.
func (s *simulation) deviceNamed(name string) *device {
	for _, d := range s.devices {
		if d.name() == name {
			return d
		}
	}
	panic("simulate: there is no device " + name)
}

// hang makes the step in flight take longer, or the next one.
func (r *replica) hang(by time.Duration) {
	r.touch()
	if r.stepEnd.IsZero() {
		r.hangs += by
	} else {
		r.stepEnd = r.stepEnd.Add(by)
	}
}

// fail loses the device with its memory. Its replicas crash.
func (d *device) fail(back time.Duration) {
	s := d.sim
	if !d.node.runs() || d.broken {
		return
	}
	s.record.note(s.key.at, "fault", "device", d.name(), "why", "the device is lost")
	d.broken = true
	d.performHealth(d.health.DeviceLost("by a fault of the scenario", s.key.at))
	for _, c := range d.copying {
		s.copies.abort(c)
	}
	for _, r := range append(slices.Clone(d.replicas), d.parts...) {
		r.restart()
	}
	d.changed()
	if back > 0 {
		life := d.life
		s.after(back, func() {
			if life == d.life {
				d.broken = false
			}
		})
	}
}

// observe observes a device that is lost, as its actor does each second. A healthy one has nothing to report.
func (d *device) observe() {
	if d.health.State() == quarantine.Healthy && !d.broken {
		return
	}
	var seen health.Observation
	if d.broken {
		seen.Lost = "by a fault of the scenario"
	}
	d.performHealth(d.health.Observed(seen, d.memory.Empty(), d.sim.key.at))
}

// performHealth carries out the effects of the quarantine.
func (d *device) performHealth(effects []quarantine.Effect) {
	s, life := d.sim, d.life
	for _, effect := range effects {
		switch e := effect.(type) {
		case quarantine.RunTest:
			s.post(func() {
				fault := ""
				if d.broken {
					fault = "the device does not respond"
				}
				if life == d.life {
					d.performHealth(d.health.Tested(fault, s.key.at))
				}
			})
		case quarantine.UnloadAll:
			d.performMemory(d.memory.UnloadAll(s.key.at))
		case quarantine.Began:
			s.record.note(s.key.at, "quarantine", "device", d.name(), "why", e.Detail)
			d.tellDeployments()
		case quarantine.Ended:
			s.record.note(s.key.at, "release", "device", d.name(), "why", e.Why)
			d.tellDeployments()
		}
	}
}

// tellDeployments tells all deployments the status of the device, which they ask for each second.
func (d *device) tellDeployments() {
	d.changed()
	for _, c := range d.sim.cfg.Deployments {
		if m := d.sim.models[c.Name]; m.mayUse(d) {
			m.askGPU(d.location())
		}
	}
}

// fail loses the node with its memory and its KV tiers. Its disk is kept otherwise. The sessions and the router notice
// that it is silent, and then the deployments that it is gone.
func (n *node) fail(back time.Duration) {
	s, now := n.sim, n.sim.key.at
	if !n.runs() {
		return
	}
	s.record.note(now, "fault", "node", n.Name, "why", "the node is lost")
	if !n.lost {
		n.seen = now
	}
	n.life++
	life := n.life
	for _, t := range n.tiers {
		t.lost = true
		t.stop(now)
	}
	for _, d := range n.devices {
		d.lose()
	}
	n.lost, n.cut = true, false
	n.cache, n.speeds = newHostImages(n.HostCache), loadsource.Speeds{}
	n.read.free, n.write.free = time.Time{}, time.Time{}
	n.tiers = s.newTiers(n)
	n.in.free, n.out.free = time.Time{}, time.Time{}
	if n.remote != nil {
		n.remote.lost = true
		n.remote = s.newRemoteTier(n)
	}
	n.onDisk.lose()
	s.after(nodeGoneAfter, func() {
		if n.lost && n.life == life {
			n.gone = true
			s.tellMembers()
		}
	})
	if back > 0 {
		s.after(back, n.back)
	}
}

// back brings a node back as a new process.
func (n *node) back() {
	n.lost, n.gone = false, false
	n.sim.record.note(n.sim.key.at, "back", "node", n.Name)
	n.sim.tellMembers()
	if n.network.cuts > 0 {
		n.cutOff()
	}
}

func (s *simulation) tellMembers() {
	s.post(s.routerMembers)
	for _, c := range s.cfg.Deployments {
		m := s.models[c.Name]
		m.post(m.members())
	}
}

// lose loses the memory of the device and its replicas with the node.
func (d *device) lose() {
	s := d.sim
	var silent []router.Actor
	for _, r := range d.replicas {
		s.after(nodeGoneAfter, func() { r.losePeer(func(*node) bool { return true }) })
		r.halt()
		waiting := r.assigned()
		r.end()
		for _, q := range waiting {
			if !d.node.cut { // else its session knows of the silence
				s.record.note(s.key.at, "interrupt", "request", q.id, "replica", r.name, "why", "its node is lost")
				q.model.interrupted++
				q.strand(r)
			}
		}
		silent = append(silent, router.Actor(r.address()))
	}
	s.after(nodeSilentAfter, func() {
		for _, actor := range silent {
			delete(s.byID, actor.ID)
			s.performRouter(s.router.Lost(actor, s.key.at))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(d.leases)) {
		d.leave(name)
	}
	d.broken = false
	d.reset()
}

// watchOf returns the watch over the steps of a replica. Only those are watched of which a fault makes a step
// hang: their steps run one by one.
func (s *simulation) watchOf(name string) core.Watch {
	for _, f := range s.cfg.Faults {
		if f.Hangs && f.Replica == name {
			return core.Watch{StepTimeout: core.DefaultWatch.StepTimeout, HungTimeout: core.DefaultWatch.HungTimeout}
		}
	}
	return core.Watch{}
}
