package simulate

import (
	"slices"
	"time"

	"troupe/core/deployment"
	memory "troupe/core/device"
	"troupe/core/lora"
)

// life has what was counted of the lives of a deployment's replicas.
type life struct {
	loads       map[string]counted // by source
	switches    counted            // starts on a device where a replica of a model served last that has left it
	starts      counted            // of replicas, until they served
	waking      counted            // until a replica served
	wakes       int
	interrupted int // sequences that their replicas did not finish
	held        map[*device]*holding
}

// counted is how often something happened, and how long that took.
type counted struct {
	n    int
	took time.Duration
}

func (c *counted) add(took time.Duration) { c.n, c.took = c.n+1, c.took+took }

// totals has what was counted of replicas that have ended.
type totals struct {
	computed, cached, preemptions, steps uint64
	busy                                 time.Duration
	adapters                             lora.Stats
	tiers                                tierTotals
}

// holding is the time for which replicas hold a device.
type holding struct {
	replicas int
	since    time.Time
	total    time.Duration
}

func newLife() life { return life{loads: make(map[string]counted), held: make(map[*device]*holding)} }

func (h *holding) change(by int, now time.Time) {
	if now.Before(epoch) {
		now = epoch
	}
	if h.replicas > 0 {
		h.total += now.Sub(h.since)
	}
	h.replicas, h.since = h.replicas+by, now
}

// until returns the time until the end of a run.
func (h *holding) until(end time.Time) time.Duration {
	h.change(0, end)
	return h.total
}

// hold counts a replica that holds the device, from its start on until its memory is free.
func (d *device) hold(name string, m *model) {
	if d.leases[name] != nil {
		return // it was started again on the device
	}
	d.leases[name] = m
	if m.held[d] == nil {
		m.held[d] = new(holding)
	}
	m.held[d].change(1, d.sim.key.at)
	d.held.change(1, d.sim.key.at)
}

// leave counts a replica that no longer holds the device.
func (d *device) leave(name string) {
	if m := d.leases[name]; m != nil {
		delete(d.leases, name)
		m.held[d].change(-1, d.sim.key.at)
		d.held.change(-1, d.sim.key.at)
	}
}

// freed tells the deployment that the memory of a replica is free, on all of its devices. A replica that was not loaded
// leaves the device then, too.
func (s *simulation) freed(name string, at *device) {
	for _, d := range s.cfg.Deployments {
		m := s.models[d.Name]
		l := lease{name, at.node}
		if e, stops := m.stopping[l]; stops && !at.node.cut {
			at.leave(name)
			if e.devices = remove(e.devices, at); len(e.devices) > 0 {
				m.stopping[l] = e
				continue
			}
			delete(m.stopping, l)
			m.handle(deployment.Freed{Request: e.request})
		}
	}
}

func memoryRequest(name string) memory.Request {
	return memory.Request{ID: name, From: memory.Actor{ID: "replicas"}}
}

// loaded counts a load of weights.
func (l *life) loaded(source string, took time.Duration) {
	c := l.loads[source]
	c.add(took)
	l.loads[source] = c
}

// serves counts a replica that serves for the first time.
func (m *model) serves(r *replica) {
	s, d := m.sim, r.device
	before := d.last
	if slices.ContainsFunc(d.replicas, func(other *replica) bool { return other.model == before }) {
		before = nil // they share the device
	}
	d.last = m
	if s.starting() {
		return
	}
	took := s.key.at.Sub(r.began)
	m.starts.add(took)
	if before != nil {
		m.switches.add(took)
	}
	if !m.woken.IsZero() {
		m.waking.add(s.key.at.Sub(m.woken))
		m.woken = time.Time{}
	}
	s.record.serve(s.key.at, r, before, took)
}

// retire keeps what a replica that has ended has counted.
func (m *model) retire(r *replica) {
	m.totals.add(r)
	m.sim.series.gone(r, m.sim.key.at)
}

func (t *totals) add(r *replica) {
	s := r.machine.Status()
	t.computed, t.cached = t.computed+s.Totals.TokensIn, t.cached+s.Totals.TokensCached
	t.preemptions += s.Totals.Preemptions
	t.steps += s.Steps
	t.busy += s.Totals.Use.Steps
	t.addPool(r.pool)
	t.addTiers(r.tiering)
}
