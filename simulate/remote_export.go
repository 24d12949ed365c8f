package simulate

import (
	"time"

	"troupe/core/export"
	"troupe/core/remote"
	core "troupe/core/replica"
	"troupe/core/session"
)

// holder has blocks that it sends to other replicas and nodes: a replica, or a tier of a node.
type holder interface {
	at() *node
	lease(f *fetch, r export.Request)
	release(id string)
	links() []*link // that a transfer from it uses
	sent(id, fault string)
	lent() *lending
}

// lending is what a holder sends.
type lending struct {
	asking *fetch            // whose lease is being handled
	sends  map[string]*fetch // by id
}

func (l *lending) lent() *lending { return l }

// begin begins to send what is asked for.
func (l *lending) begin(x *transfer) {
	if l.sends == nil {
		l.sends = make(map[string]*fetch)
	}
	l.asking.transfer, l.sends[l.asking.id] = x, l.asking
}

// stop ends what a holder sends that is lost.
func (l *lending) stop(now time.Time) {
	for _, f := range l.sends {
		f.transfer.stops = now
	}
}

// holderAt returns a holder; nil: it has ended.
func (s *simulation) holderAt(a remote.Actor) holder {
	if r := s.byAddress(session.Actor(a)); r != nil && r.tiering != nil && !r.ended {
		return r.tiering
	}
	if n := s.nodes[a.Address]; n != nil {
		for _, t := range n.tiers {
			if t.name == a.ID {
				return t
			}
		}
	}
	return nil
}

// transfer is when blocks arrive. It is known when it begins.
type transfer struct {
	begins time.Time
	took   time.Duration
	stops  time.Time // since its holder is lost; zero: it does not
	blocks int
	parts  int
}

// partEnds returns when a part of all blocks has arrived.
func (x *transfer) partEnds(part int) time.Time {
	return x.begins.Add(x.took * time.Duration(part+1) / time.Duration(x.parts))
}

// blockEnds returns when all parts of a block have arrived.
func (x *transfer) blockEnds(block int) time.Time {
	n := x.blocks*(x.parts-1) + block + 1
	return x.begins.Add(time.Duration(float64(x.took) * float64(n) / float64(x.blocks*x.parts)))
}

// arrived returns the number of blocks that have arrived by a time.
func (x *transfer) arrived(by time.Time) (n int) {
	if x == nil {
		return 0
	}
	if !x.stops.IsZero() && x.stops.Before(by) {
		by = x.stops
	}
	for n < x.blocks && !x.blockEnds(n).After(by) {
		n++
	}
	return n
}

// send sends the first blocks of a fetch. It ends when all have arrived, or when the lease is over.
func (s *simulation) send(h holder, e export.Send) {
	now, f := s.key.at, h.lent().asking
	x := s.transfer(h, f, len(e.Blocks))
	h.lent().begin(x)
	ends, fault := x.begins.Add(x.took), ""
	if limit := now.Add(e.Within); ends.After(limit) {
		ends, fault = limit, "the lease is over"
	}
	s.after(ends.Sub(now), func() {
		delete(h.lent().sends, e.ID)
		h.sent(e.ID, fault)
	})
}

// transfer books the links of a transfer. It is as fast as the slowest of them.
func (s *simulation) transfer(h holder, f *fetch, blocks int) *transfer {
	from, to, bytes := h.at(), f.to.node, int64(blocks)*f.bytes
	over := append(h.links(), &f.to.up)
	if from != to {
		over = append(over, &from.out, &to.in)
	}
	x := &transfer{begins: s.key.at, blocks: blocks, parts: f.parts}
	for _, l := range over {
		x.begins, x.took = latest(x.begins, l.free), max(x.took, l.time(bytes))
	}
	if p := s.between[pairOf(from.Name, to.Name)]; p != nil && from != to {
		x.took = max(x.took, time.Duration(float64(bytes)/p.bandwidth*p.slow.factor()*1e9))
	}
	for _, l := range over {
		l.free = x.begins.Add(l.time(bytes))
	}
	if from != to {
		from.out.free, to.in.free = x.begins.Add(x.took), x.begins.Add(x.took)
	}
	return x
}

// answerLease tells the node that has asked for blocks how many were sent, or that none were.
func (s *simulation) answerLease(h holder, to export.Actor, id string, blocks int, refused bool) {
	n := s.nodes[to.Address]
	if t := n.remote; t != nil && h.at().reaches(n) {
		s.post(func() {
			if refused {
				t.perform(t.machine.Refused(id, s.key.at))
			} else {
				t.perform(t.machine.Sent(id, blocks, s.key.at))
			}
		})
	}
}

// A replica sends blocks of its device.

func (t *tiering) at() *node      { return t.replica.device.node }
func (t *tiering) links() []*link { return []*link{&t.replica.device.down} }

func (t *tiering) lease(f *fetch, r export.Request) {
	t.replica.touch()
	t.asking = f
	t.performExport(t.exports.Lease(r))
}

func (t *tiering) release(id string) {
	t.replica.touch()
	t.performExport(t.exports.Release(id))
}

func (t *tiering) sent(id, fault string) {
	t.event(func() { t.performExport(t.exports.Ended(id, nil, fault)) })
}

// performExport carries out the effects of core/export, in order.
func (t *tiering) performExport(effects []export.Effect) {
	pool, s := t.replica.machine.Pool(), t.replica.sim
	for _, effect := range effects {
		switch e := effect.(type) {
		case export.Lock:
			blocks := pool.Acquire(e.Request.Hashes[:pool.Match(e.Request.Hashes)])
			t.performExport(t.exports.Locked(e.Request.ID, blocks))
		case export.Unlock:
			pool.Release(e.Blocks)
		case export.Send:
			s.send(t, e)
		case export.Cancel:
			t.replica.post(func(time.Time) []core.Effect {
				t.performExport(t.exports.Ended(e.ID, nil, "cancelled"))
				return nil
			})
		case export.Answer:
			s.answerLease(t, e.To, e.ID, e.Blocks, false)
		case export.Refuse:
			s.answerLease(t, e.To, e.ID, 0, true)
		}
	}
}

// A tier sends blocks of host memory, or of the disk.

func (t *kvTier) at() *node { return t.node }

func (t *kvTier) links() []*link {
	if t.name == nvmeTier {
		return []*link{&t.node.read}
	}
	return nil
}

func (t *kvTier) lease(f *fetch, r export.Request) {
	t.asking = f
	t.perform(t.machine.Lease(r))
}

func (t *kvTier) release(id string) { t.perform(t.machine.Release(id)) }

func (t *kvTier) sent(id, fault string) { t.perform(t.machine.ExportEnded(id, nil, fault)) }

func (t *kvTier) performExport(effect export.Effect) {
	switch e := effect.(type) {
	case export.Send:
		t.sim.send(t, e)
	case export.Cancel:
		t.sim.post(func() { t.sent(e.ID, "cancelled") })
	case export.Answer:
		t.sim.answerLease(t, e.To, e.ID, e.Blocks, false)
	case export.Refuse:
		t.sim.answerLease(t, e.To, e.ID, 0, true)
	}
}
