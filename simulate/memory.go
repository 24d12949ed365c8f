package simulate

import (
	"time"

	"troupe/core/deployment"
	memory "troupe/core/device"
	"troupe/core/hbm"
	"troupe/core/quarantine"
	"troupe/core/residency"
	"troupe/core/units"
)

const (
	// deviceTick is the time between two ticks of a device's memory.
	deviceTick = time.Second
	// settledAfter is the time without a change after which the ticks of a device with one replica, or with none,
	// are left out until the next change: they would change nothing.
	settledAfter = 5 * time.Second
)

// newMemory gives the device an empty memory.
func (d *device) newMemory(reserve float64, now time.Time) {
	d.memory = memory.New(memory.Config{Name: d.Name, Total: d.Memory, KVReserve: reserve}, nil, nil, 0, now)
	d.health = quarantine.New()
}

// changed keeps the ticks of the device going for a while.
func (d *device) changed() {
	d.restless = d.sim.key.at.Add(settledAfter)
	if !d.ticking {
		d.ticking = true
		life := d.life
		d.sim.after(deviceTick, func() { d.tick(life) })
	}
}

// tick reports on the KV memory of all replicas, and distributes it. The actors do so each second.
func (d *device) tick(life int) {
	if life != d.life {
		return
	}
	now := d.sim.key.at
	d.ticking = false
	for _, r := range d.replicas {
		r.reportKV(now)
	}
	d.observe()
	d.performMemory(d.memory.Tick(d.health.State(), now))
	if len(d.replicas) > 1 || now.Before(d.restless) || d.health.State() != quarantine.Healthy ||
		d.memory.Has(memory.Inspecting, memory.Waiting, memory.Loading, memory.Opening, memory.Freeing) {
		restless := d.restless
		d.changed()
		d.restless = restless
	}
}

// performMemory carries out the effects of the memory.
func (d *device) performMemory(effects []memory.Effect) {
	s, life := d.sim, d.life
	for _, effect := range effects {
		// A result is ignored if the device has lost its memory meanwhile.
		post := func(do func(now time.Time) []memory.Effect) {
			s.post(func() {
				if life == d.life {
					d.performMemory(do(s.key.at))
				}
			})
		}
		after := func(wait time.Duration, do func(now time.Time) []memory.Effect) {
			if s.starting() {
				wait = 0
			}
			s.after(wait, func() {
				if life == d.life {
					d.performMemory(do(s.key.at))
				}
			})
		}
		switch e := effect.(type) {
		case memory.Inspect:
			m := s.models[e.Spec.Model]
			post(func(now time.Time) []memory.Effect {
				files := memory.Files{Revision: m.digest(), Layout: d.Kind}
				return d.memory.Inspected(e.Spec.Lease, m.size(), files, now)
			})
		case memory.LoadWeights:
			d.loadWeights(e)
		case memory.FreeWeights:
			d.freeWeights(e)
		case memory.RevokeReaders:
			d.revokeReaders(e.Copy)
		case memory.Open:
			after(d.Costs.Open, func(now time.Time) []memory.Effect {
				return d.memory.Loaded(d.opened(e), now)
			})
		case memory.Free:
			after(d.Costs.Free, func(now time.Time) []memory.Effect { return d.memory.Freed(e.Lease, 0, now) })
		case memory.Resize:
			post(func(now time.Time) []memory.Effect { return d.memory.Resized(e.Lease, e.Attempt, e.Blocks, now) })
		case memory.AskShrink:
			d.tell(e.Lease, func(r *replica, now time.Time) {
				r.perform(r.machine.Shrink(e.Lease, e.Blocks, e.Attempt), now)
			})
			s.after(e.Timeout, func() {
				if life == d.life {
					d.performMemory(d.memory.Timer(e.Lease, e.Attempt, s.key.at))
				}
			})
		case memory.NotifyReplica:
			d.tell(e.Lease, func(r *replica, now time.Time) { r.perform(r.machine.Grow(e.Lease, e.Blocks), now) })
		case memory.AnswerLoad:
			d.answerLoad(e)
		case memory.RefuseLoad:
			d.refuseLoad(e)
		case memory.AnswerUnload:
			d.changed()
			s.post(func() { s.freed(e.To.ID, d) })
		case memory.ModelUnloaded:
			d.leave(e.Lease)
		case memory.LossDetected:
			d.performHealth(d.health.DeviceLost(e.Detail, s.key.at))
		case memory.WeightsEvicted:
			s.record.note(s.key.at, "evict", "device", d.name(), "model", e.Copy.Source.Model, "why", e.Why)
		case memory.ShortOfMemory:
			s.record.note(s.key.at, "short", "replica", e.Lease, "why", e.Why)
		case memory.NotYielded:
			s.record.note(s.key.at, "kept", "replica", e.Lease, "why", e.Why)
		}
	}
}

// tell sends a replica of the device a message.
func (d *device) tell(name string, do func(r *replica, now time.Time)) {
	d.sim.post(func() {
		for _, r := range d.replicas {
			if r.name == name {
				r.touch()
				do(r, d.sim.key.at)
				return
			}
		}
	})
}

// reported reports on the KV memory of a replica.
func (d *device) reported(r *replica, report memory.Report) {
	if was := d.levels[r.name]; was != report.Standby {
		d.levels[r.name] = report.Standby
		d.changed()
	}
	d.performMemory(d.memory.Reported(r.owner(), r.name, report, d.sim.key.at))
}

// opened returns what the memory of a lease has.
func (d *device) opened(e memory.Open) memory.Model {
	m := d.sim.models[e.Spec.Model]
	size := m.size()
	model := memory.Model{Lease: e.Spec.Lease, Copy: e.Copy, Handle: e.Spec.Lease, Owner: e.Owner, Size: size,
		Blocks: e.Blocks, BlockBytes: size.BlockBytes, Weights: m.digest(), Revision: m.digest(), Deploy: e.Spec.Deploy,
		ContextTokens: m.ContextTokens, AdapterPages: e.Spec.AdapterPages, AdapterMin: e.Spec.AdapterPages}
	if from, known := d.origins[e.Copy]; known {
		model.From, model.FromWhy = from.source, from.why
	}
	return model
}

func (d *device) location() deployment.Location {
	return deployment.Location{Node: d.Node, GPU: d.Device.Name}
}

// size returns the memory of a replica as its device sees it.
func (m *model) size() memory.Size {
	need := m.need()
	need.Fixed -= m.Adapters.bytes()
	return memory.Size{Need: need, Weights: m.WeightBytes, BlockBytes: m.blockSize(), MaxBlocks: m.kvSize().Max()}
}

// kvSize returns the parameters of the number of KV blocks.
func (m *model) kvSize() units.KVSize {
	return units.KVSize{BlockTokens: m.BlockTokens, ContextTokens: m.ContextTokens, MaxSequences: m.MaxSequences,
		Requested: m.KVBlocks}
}

// need returns the memory of a replica.
func (m *model) need() hbm.Need {
	size := m.kvSize()
	return hbm.Need{Fixed: pages(m.WeightBytes) + m.Adapters.bytes(), Min: m.blockBytes(size.Min()),
		MinAlone: m.blockBytes(size.MinAlone()), Max: m.blockBytes(size.Max())}
}

// blockBytes returns the memory of a number of KV blocks.
func (m *model) blockBytes(blocks int) int64 {
	return pages(int64(blocks) * m.blockSize())
}

func pages(bytes int64) int64 { return (bytes + hbm.PageBytes - 1) / hbm.PageBytes * hbm.PageBytes }

// residentOf returns the copy of a model's weights on the device that others may read; nil: there is none.
func (d *device) residentOf(digest string) *residency.Copy {
	if !d.node.runs() {
		return nil
	}
	for _, c := range d.memory.Copies() {
		if c.State == residency.Resident && c.Content.Revision == digest {
			return &c
		}
	}
	return nil
}
