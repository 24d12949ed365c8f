package simulate

import (
	"strconv"

	"troupe/core/hostcache"
)

// hostImages is the host cache of a node with the images of weights and adapters, as actors/hostcache has it. Effects
// of its machine are carried out by perform.
type hostImages struct {
	*hostcache.Machine
	waiting map[string]func() // loads that wait until another one has filled their image
	loads   int
	changes int // of what HasImage answers
	pools   []*adapterPool
}

func newHostImages(budget int64) *hostImages {
	return &hostImages{Machine: hostcache.New(budget), waiting: make(map[string]func())}
}

// has reports whether the image of an adapter is there.
func (h *hostImages) has(name hostcache.Name) bool {
	key, there := h.Find(name)
	return there && h.State(key) == hostcache.Ready
}

// use is the use of an image by a load.
type use struct {
	key    hostcache.Key
	reader string // empty: the load fills the image
}

// use calls load with the image of an adapter as soon as no other load fills it. The use is nil if there is no
// room for it.
func (h *hostImages) use(name hostcache.Name, bytes int64, load func(*use)) {
	h.loads++
	h.ask("adapter-"+strconv.Itoa(h.loads), name, bytes, load)
}

func (h *hostImages) ask(id string, name hostcache.Name, bytes int64, load func(*use)) {
	key, there := h.Find(name)
	switch {
	case there && h.State(key) == hostcache.Filling:
		h.waiting[id] = func() { h.ask(id, name, bytes, load) }
		h.perform(h.Await(key, id))
	case there:
		h.perform(h.Open(key, id))
		load(&use{key, id})
	default:
		key = hostcache.Key{Digest: id, Layout: name.Layout}
		effects := h.Fill(key, bytes, false)
		if h.perform(effects); refused(effects) {
			load(nil)
			return
		}
		h.perform(h.Attach(key, name))
		load(&use{key: key})
	}
}

func refused(effects []hostcache.Effect) bool {
	_, is := effects[len(effects)-1].(hostcache.Refuse)
	return is
}

// end ends a use, which may be nil. A load that filled the image reports the content, or that it failed.
func (h *hostImages) end(u *use, content string, ok bool) {
	switch {
	case u == nil:
	case u.reader != "":
		h.perform(h.Close(u.key, u.reader))
	case ok:
		h.perform(h.Filled(u.key, content))
		h.changed()
	default:
		h.perform(h.Failed(u.key, "the load ended without it"))
	}
}

// remove removes a pool that is closed.
func (h *hostImages) remove(p *adapterPool) { h.pools = remove(h.pools, p) }

func (h *hostImages) perform(effects []hostcache.Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case hostcache.Free, hostcache.Attach:
			h.changed()
		case hostcache.Proceed:
			proceed := h.waiting[e.Waiter]
			delete(h.waiting, e.Waiter)
			proceed()
		}
	}
}

// changed lets the pools of the node report where adapters are.
func (h *hostImages) changed() {
	h.changes++
	for _, p := range h.pools {
		p.wantTick()
	}
}
