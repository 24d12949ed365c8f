package simulate

import (
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"troupe/core/hostcache"
	"troupe/core/lora"
	core "troupe/core/replica"
)

// adapterPool decides which adapters are on a replica's device, as the actor of actors/adapter.
type adapterPool struct {
	replica  *replica
	node     *node
	machine  *lora.Pool
	layouts  []*lora.Layout
	reported map[string]lora.Location // of the known adapters
	pins     map[string]string        // pin -> key
	counts   lora.Stats               // at the last tick
	changes  int                      // of the host cache, likewise
	ticking  bool                     // a tick is planned
	asked    map[string][]time.Time   // when requests came that wait for an adapter
	closed   bool                     // its replica has ended or crashed
}

// post delivers a message to the pool.
func (p *adapterPool) post(handle func()) { p.replica.sim.post(p.open(handle)) }

// open returns a function that does something, unless the pool is closed by then.
func (p *adapterPool) open(do func()) func() {
	return func() {
		if !p.closed {
			do()
		}
	}
}

// close ends the pool with its replica. The copies in progress go on without a result.
func (p *adapterPool) close() {
	p.closed = true
	p.node.cache.remove(p)
}

// know makes an adapter known to the machine.
func (p *adapterPool) know(key string) {
	if _, known := p.reported[key]; !known {
		p.reported[key] = lora.Location{}
	}
	p.machine.Inspect(key)
}

func (p *adapterPool) layoutOf(key string) *lora.Layout {
	h := fnv.New32a()
	h.Write([]byte(key))
	return p.layouts[int(h.Sum32())%len(p.layouts)]
}

func (p *adapterPool) requested(key string) {
	p.know(key)
	p.machine.Requested(key, p.replica.sim.key.at)
	p.perform()
	p.wantTick()
	if state, _ := p.machine.State(key); state != lora.Idle && state != lora.Active {
		p.asked[key] = append(p.asked[key], p.replica.sim.key.at)
	}
}

func (p *adapterPool) pin(pin core.Pin) {
	p.know(pin.Adapter)
	state, why := p.machine.Pin(pin.Name, pin.Adapter)
	if why != nil {
		p.answer(pin.Name, why)
	} else {
		p.pins[pin.Name] = pin.Adapter
	}
	if state == lora.Active {
		p.answer(pin.Name, nil)
	}
	p.perform(pin.Adapter)
}

func (p *adapterPool) unpin(name string) {
	if key, held := p.pins[name]; held {
		delete(p.pins, name)
		p.machine.Unpin(name)
		p.perform(key)
	}
}

// answer answers a pin.
func (p *adapterPool) answer(name string, why *lora.Refusal) {
	p.replica.post(func(time.Time) []core.Effect { return p.replica.machine.PinResult(name, why) })
}

// perform carries out the actions of the machine, in order, and reports where adapters are.
func (p *adapterPool) perform(touched ...string) {
	for actions := p.machine.Actions(); len(actions) > 0; actions = p.machine.Actions() {
		for _, action := range actions {
			switch a := action.(type) {
			case lora.Inspect:
				p.post(func() { p.inspected(a.Adapter) })
			case lora.Load:
				p.load(a.Adapter)
				touched = append(touched, a.Adapter)
			case lora.Evict:
				p.replica.sim.record.adapter(p.replica, "evict", a.Adapter)
				p.machine.Evicted(a.Adapter)
				touched = append(touched, a.Adapter)
			case lora.Ready:
				p.answer(a.Request, nil)
				touched = append(touched, a.Adapter)
			case lora.Lost:
				delete(p.pins, a.Request)
				p.answer(a.Request, a.Refusal)
				touched = append(touched, a.Adapter)
			}
		}
	}
	p.notify(touched...)
	if p.counts != p.machine.Stats() {
		p.wantTick()
	}
}

// inspected reports the size of an adapter. Reading the header of its file takes no time.
func (p *adapterPool) inspected(key string) {
	why := p.machine.Inspected(key, p.layoutOf(key))
	if p.perform(); why != nil {
		delete(p.reported, key)
	}
	p.machine.Requested(key, p.replica.sim.key.at)
	p.wantTick()
}

// load copies an adapter to the device: from host memory, or else from disk through host memory.
func (p *adapterPool) load(key string) {
	bytes, h, up := p.layoutOf(key).Bytes(), p.node.cache, &p.replica.device.up
	p.replica.sim.record.adapter(p.replica, "load", key)
	h.use(p.nameOf(key), bytes, func(u *use) {
		arrive := func(from lora.Tier) {
			if h.end(u, p.replica.model.Name+":"+key, !p.closed); !p.closed {
				p.loaded(key, from)
			}
		}
		switch {
		case p.closed:
			arrive(lora.Disk)
		case u != nil && u.reader != "":
			up.copy(bytes, func() { arrive(lora.DRAM) })
		default:
			p.node.read.copy(bytes, func() { up.copy(bytes, func() { arrive(lora.Disk) }) })
		}
	})
}

func (p *adapterPool) nameOf(key string) hostcache.Name {
	return hostcache.Name{Model: p.replica.model.Name, Adapter: key, Layout: p.replica.device.Kind}
}

func (p *adapterPool) loaded(key string, from lora.Tier) {
	now, m := p.replica.sim.key.at, p.replica.model
	p.replica.sim.record.adapter(p.replica, "loaded", key)
	for _, at := range p.asked[key] {
		m.adapterWaits = append(m.adapterWaits, now.Sub(at))
	}
	delete(p.asked, key)
	p.machine.Loaded(key, from, nil)
	p.perform(key)
}

// notify reports the locations of adapters to the replica, as far as they have changed.
func (p *adapterPool) notify(keys ...string) {
	var changed map[string]lora.Location
	for _, key := range keys {
		before, known := p.reported[key]
		if now := p.machine.Location(key, p.node.cache.has(p.nameOf(key))); known && now != before {
			if changed == nil {
				changed = make(map[string]lora.Location)
			}
			p.reported[key], changed[key] = now, now
		}
	}
	if changed != nil {
		p.changed(changed)
	}
}

func (p *adapterPool) changed(at map[string]lora.Location) {
	p.counts = p.machine.Stats()
	p.replica.post(func(time.Time) []core.Effect { return p.replica.machine.AdaptersChanged(at) })
}

// wantTick plans the next tick. A tick before which nothing changed does nothing, and is left out.
func (p *adapterPool) wantTick() {
	if !p.ticking {
		p.ticking = true
		p.replica.sim.after(lora.TickEvery-since(p.replica.sim.key.at)%lora.TickEvery, p.open(p.tick))
	}
}

// tick prefetches popular adapters, and reports copies in host memory and the counters, as far as they have changed.
func (p *adapterPool) tick() {
	p.ticking = false
	p.perform(p.machine.Tick(p.replica.sim.key.at)...)
	if h := p.node.cache; h.changes != p.changes {
		p.changes = h.changes
		p.notify(slices.Sorted(maps.Keys(p.reported))...)
	}
	if p.counts != p.machine.Stats() {
		p.changed(nil)
	}
}
