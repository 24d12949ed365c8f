package simulate

import (
	"cmp"

	"troupe/core/cost"
	"troupe/core/deployment"
	"troupe/core/hostcache"
	"troupe/core/loadsource"
)

// diskImages has the images of weights on the disk of a node, as actors/hostcache has them. Weights that are loaded
// are written there once, one after another, if there is room. The images outlive the node's processes.
type diskImages struct {
	*hostcache.Machine
	node    *node
	waits   []diskWrite
	writing *copying // nil: before the beginning, or no write is in progress
	busy    bool
}

// diskWrite is an image that is to be written.
type diskWrite struct {
	key   hostcache.Key
	model *model
	ended func() // nil: nothing waits for it
}

// DiskImageBandwidth returns the bandwidth of loads from an image on disk in a profile, or 0.
func DiskImageBandwidth(p cost.Profile) float64 {
	if p.Loads.DiskImage == nil {
		return 0
	}
	return p.Loads.DiskImage.BytesPerSecond
}

// image returns the image of a model on the node's disk as a source of weights, and whether it is there.
func (i *diskImages) image(d *device, m *model) (s source, ready bool) {
	path := loadsource.Path{Kind: loadsource.DiskImage, From: "disk", To: d.Name}
	c := loadsource.Candidate{Path: path, Name: string(loadsource.DiskImage)}
	s = source{c, []*pipe{i.node.images, d.link}, nil}
	return s, i.State(d.image(m)) == hostcache.Ready
}

// keep writes an image of weights, unless it is there or there is no room.
func (i *diskImages) keep(key hostcache.Key, m *model) {
	if i.State(key) == hostcache.Absent && i.Usage().Budget > 0 {
		i.waits = append(i.waits, diskWrite{key, m, nil})
		i.next()
	}
}

// use notes that an image was read, so that it is dropped later than others.
func (i *diskImages) use(key hostcache.Key) {
	const reader = "load"
	i.Open(key, reader)
	i.Close(key, reader)
}

// park calls parked once the disk has an image of weights that leave a device. It reports false if it will have none.
func (i *diskImages) park(key hostcache.Key, m *model, parked func()) bool {
	switch i.State(key) {
	case hostcache.Ready:
		i.node.sim.post(parked)
		return true
	case hostcache.Absent:
		if refused(i.Fill(key, m.WeightBytes, m.level == deployment.Parked)) {
			return false
		}
		i.waits = append(i.waits, diskWrite{key, m, parked})
		i.next()
		return true
	}
	return false
}

// next begins the next write, unless one is in progress.
func (i *diskImages) next() {
	for !i.busy && len(i.waits) > 0 {
		w := i.waits[0]
		i.waits = i.waits[1:]
		if i.State(w.key) == hostcache.Absent {
			i.Fill(w.key, w.model.WeightBytes, w.model.level == deployment.Parked)
		}
		if i.State(w.key) != hostcache.Filling {
			continue // no room, or another load has written it
		}
		i.busy = true
		i.writing = i.node.sim.copies.begin(w.model.WeightBytes, func(ok bool) { i.written(w, ok) }, i.node.images)
	}
}

func (i *diskImages) written(w diskWrite, ok bool) {
	i.busy, i.writing = false, nil
	if ok {
		i.Filled(w.key, w.key.Digest)
	} else {
		i.Failed(w.key, "the node was lost")
	}
	if w.ended != nil {
		w.ended()
	}
	i.next()
}

// lose ends the writes of a node that is lost. What is complete stays on the disk.
func (i *diskImages) lose() {
	waits := i.waits
	if i.waits = nil; i.writing != nil {
		i.node.sim.copies.abort(i.writing)
	}
	for _, w := range waits {
		if i.State(w.key) == hostcache.Filling {
			i.Failed(w.key, "the node was lost")
		}
	}
}

// imageBandwidth returns the bandwidth of images on the disk: without a figure, that of the folders of models.
func (n Node) imageBandwidth() float64 { return cmp.Or(n.DiskImage, n.Disk) }
