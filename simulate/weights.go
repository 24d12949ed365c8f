package simulate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"troupe/core/deployment"
	memory "troupe/core/device"
	"troupe/core/hostcache"
	"troupe/core/loadsource"
	"troupe/core/quarantine"
	"troupe/core/residency"
)

// fromHostCache is the name of the host cache as a source of weights.
const fromHostCache = "host cache"

// origin is where a copy of weights was loaded from.
type origin struct{ source, why string }

// source is a source of weights, with what a load from it uses.
type source struct {
	loadsource.Candidate
	pipes []*pipe
	from  *device // that is read; nil: none is
}

// sourcesOf returns the sources that have the weights of a model, apart from those that a load has lost.
func (d *device) sourcesOf(m *model) (all []source) {
	n := d.node
	if n.cache.State(d.image(m)) == hostcache.Ready {
		path := loadsource.Path{Kind: loadsource.Host, To: d.Name}
		all = append(all, source{loadsource.Candidate{Path: path, Name: fromHostCache}, []*pipe{d.link}, nil})
	}
	folder := loadsource.Path{Kind: loadsource.Folder, From: "disk", To: d.Name}
	disk := source{loadsource.Candidate{Path: folder, Name: string(loadsource.Folder)}, []*pipe{n.disk, d.link}, nil}
	if image, ready := n.onDisk.image(d, m); ready {
		all = append(all, image)
	}
	if d.sim.starting() { // it takes no time
		return append(all, disk)
	}
	for _, other := range n.devices {
		if other != d && other.Kind == d.Kind && other.healthy() && other.residentOf(m.digest()) != nil {
			path := loadsource.Path{Kind: loadsource.Device, From: other.Name, To: d.Name}
			c := source{loadsource.Candidate{Path: path, Name: other.Name, Direct: d.peer != nil && other.peer != nil},
				[]*pipe{other.link, d.link}, other}
			if c.Direct {
				c.pipes = []*pipe{other.peer, d.peer}
			}
			all = append(all, c)
		}
	}
	return append(append(all, disk), d.otherNodes(m)...)
}

// otherNodes returns what other nodes have of a model.
func (d *device) otherNodes(m *model) (all []source) {
	for _, n := range d.sim.nodeOrder {
		if n == d.node || !d.sim.connected(n, d.node) {
			continue
		}
		over := append(d.sim.network(n, d.node), d.link)
		if n.cache.State(d.image(m)) == hostcache.Ready {
			path := loadsource.Path{Kind: loadsource.Node, From: n.Name, To: d.Name}
			all = append(all, source{loadsource.Candidate{Path: path, Name: "node " + n.Name}, over, nil})
			continue
		}
		for _, other := range n.devices {
			if other.Kind == d.Kind && other.healthy() && other.residentOf(m.digest()) != nil {
				path := loadsource.Path{Kind: loadsource.NodeDevice, From: n.Name, To: d.Name}
				all = append(all, source{loadsource.Candidate{Path: path, Name: other.name()},
					append(over, other.link), other})
				break
			}
		}
	}
	return all
}

func (d *device) image(m *model) hostcache.Key {
	return hostcache.Key{Digest: m.digest(), Layout: d.Kind}
}

func (d *device) healthy() bool { return d.node.runs() && d.health.State() == quarantine.Healthy }

// load is a load of weights onto a device.
type load struct {
	memory.LoadWeights
	device *device
	model  *model
	from   source
	why    string
	began  time.Time
	life   int         // of the memory of the device
	cache  *hostImages // of its node
	fills  bool        // an image in the cache
	reader string
	read   uint64 // copy that is read on another device
	reads  int    // life of the memory of that device
}

// reading is a copy of weights of this device to another one.
type reading struct {
	copy uint64
	*copying
}

// loadWeights loads weights from the source that is expected to be the fastest. They pass through the host
// cache, which keeps an image of them if it has room.
func (d *device) loadWeights(e memory.LoadWeights) {
	s, n := d.sim, d.node
	d.loads++
	l := &load{LoadWeights: e, device: d, model: s.models[e.Source.Model], began: s.key.at, life: d.life,
		cache: n.cache, reader: fmt.Sprintf("%s/%d", d.name(), d.loads)}
	sources := d.sourcesOf(l.model)
	candidates := make([]loadsource.Candidate, len(sources))
	for i, c := range sources {
		candidates[i] = c.Candidate
	}
	order, why := n.speeds.Rank(l.model.WeightBytes, candidates)
	l.from, l.why = sources[order[0]], why
	if l.from.Kind == loadsource.Host {
		l.cache.perform(l.cache.Open(d.image(l.model), l.reader))
	} else if l.cache.State(d.image(l.model)) == hostcache.Absent {
		l.fills = d.fillImage(l.model)
	}
	s.record.note(s.key.at, "load", "device", d.name(), "model", l.model.Name, "source", string(l.from.Kind),
		"why", why)
	copying := s.copies.begin(l.model.WeightBytes, l.done, l.from.pipes...)
	d.track(copying)
	if from := l.from.from; from != nil {
		read, effects := from.memory.ReadAsked(l.reader, l.model.digest(), d.Kind, s.key.at)
		l.read, l.reads = read, from.life
		from.readers[l.reader] = reading{read, copying}
		from.performMemory(effects)
	}
}

// done ends a load. One whose source was lost begins again.
func (l *load) done(ok bool) {
	d, s := l.device, l.device.sim
	if from := l.from.from; from != nil && l.reads == from.life {
		delete(from.readers, l.reader)
		from.performMemory(from.memory.ReadEnded(l.reader, l.read, s.key.at))
	}
	key := d.image(l.model)
	switch {
	case l.cache != d.node.cache: // the node was lost
	case l.from.Kind == loadsource.Host:
		l.cache.perform(l.cache.Close(key, l.reader))
	case l.fills && ok:
		l.cache.perform(l.cache.Filled(key, key.Digest))
	case l.fills:
		l.cache.perform(l.cache.Failed(key, "the load ended without it"))
	}
	switch {
	case l.life != d.life: // its memory is gone
	case !ok:
		d.loadWeights(l.LoadWeights)
	default:
		if l.from.Kind == loadsource.DiskImage {
			d.node.onDisk.use(key)
		}
		d.node.onDisk.keep(key, l.model)
		took := s.key.at.Sub(l.began)
		d.node.speeds.Observe(l.from.Path, l.model.WeightBytes, took)
		d.origins[l.Copy] = origin{string(l.from.Kind), l.why}
		if !s.starting() {
			l.model.loaded(string(l.from.Kind), took)
		}
		d.performMemory(d.memory.WeightsLoaded(l.Copy, residency.Content{Weights: key.Digest, Revision: key.Digest},
			s.key.at))
	}
}

// fillImage reserves memory for an image of weights in the host cache, and reports whether there is room.
func (d *device) fillImage(m *model) bool {
	effects := d.node.cache.Fill(d.image(m), m.WeightBytes, m.level == deployment.Parked)
	d.node.cache.perform(effects)
	return !refused(effects)
}

// freeWeights frees weights. Those that are to be parked are copied to the host cache before, unless it has
// them.
func (d *device) freeWeights(e memory.FreeWeights) {
	s, life := d.sim, d.life
	m := s.models[e.Source.Model]
	key := d.image(m)
	free := func() {
		delete(d.origins, e.Copy)
		d.changed()
		d.performMemory(d.memory.WeightsFreed(e.Copy, s.key.at))
	}
	keep := func() { d.performMemory(d.memory.WeightsNotFreed(e.Copy, s.key.at)) }
	switch state := d.node.cache.State(key); {
	case !e.Park, state == hostcache.Ready:
		s.post(func() { d.alive(life, free) })
	case state == hostcache.Absent && d.fillImage(m):
		began := s.key.at
		done := func(ok bool) {
			d.alive(life, func() {
				d.node.cache.perform(d.node.cache.Filled(key, key.Digest))
				if !s.starting() {
					s.record.note(s.key.at, "park", "device", d.name(), "model", m.Name,
						"took", s.key.at.Sub(began).String())
				}
				free()
			})
		}
		d.track(s.copies.begin(m.WeightBytes, done, d.link))
	case d.node.onDisk.park(key, m, func() { d.alive(life, free) }):
	case e.OrKeep:
		s.post(func() { d.alive(life, keep) })
	default:
		s.post(func() { d.alive(life, free) })
	}
}

// alive does something unless the device has lost its memory since.
func (d *device) alive(life int, do func()) {
	if life == d.life {
		do()
	}
}

// revokeReaders ends the copies that read some weights of the device. The loads use other sources.
func (d *device) revokeReaders(copy uint64) {
	for _, reader := range slices.Sorted(maps.Keys(d.readers)) {
		if r := d.readers[reader]; r.copy == copy && r.copying != nil {
			d.sim.copies.abort(r.copying)
		}
	}
}
