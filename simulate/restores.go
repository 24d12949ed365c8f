package simulate

import (
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/restore"
)

// reads are the copies of blocks from one tier, part by part: first the first part of all blocks. They are booked
// on a link, so it is known when each one ends.
type reads struct {
	over   *link
	blocks int
	bytes  int64 // of a block
	parts  int
	begins time.Time
	extra  time.Duration // of the last copy, on another link
	booked time.Time
	next   int // block
}

// read books the copies of blocks.
func (l *link) read(blocks int, bytes int64, parts int, extra time.Duration) *reads {
	r := &reads{over: l, blocks: blocks, bytes: bytes, parts: parts, extra: extra}
	if r.begins = l.sim.key.at; l.free.After(r.begins) {
		r.begins = l.free
	}
	if blocks > 0 {
		l.free = r.begins.Add(l.time(int64(blocks) * bytes))
	}
	r.booked = l.free
	return r
}

// partEnds returns when a part of all blocks has arrived.
func (r *reads) partEnds(part int) time.Time {
	return r.begins.Add(r.over.time(int64(r.blocks)*r.bytes*int64(part+1)/int64(r.parts)) + r.extra)
}

// blockEnds returns when all parts of the next block have arrived.
func (r *reads) blockEnds() time.Time {
	r.next++
	before := int64(r.blocks) * r.bytes * int64(r.parts-1) / int64(r.parts)
	return r.begins.Add(r.over.time(before+int64(r.next)*r.bytes/int64(r.parts)) + r.extra)
}

// cut gives back the time on the link beyond a deadline, unless a later copy is booked.
func (r *reads) cut(deadline time.Time) {
	if r.over.free.Equal(r.booked) && r.booked.After(deadline) {
		r.over.free = latest(deadline, r.begins)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// gate tells a step when the parts of the blocks arrive that it reads.
type gate struct {
	arrives  []time.Time // by part
	deadline time.Time   // parts that have not arrived by then do not
	left     time.Duration
}

// copyUp copies the leading blocks of a lookup to HBM. Tiers copy in parallel: DRAM over the link of
// the device, and NVMe over that of the disk, plus the time of one block on the link of the device.
// Other replicas and nodes send at the same time (remote_fetch.go). What has not arrived in time is
// computed instead.
func (t *tiering) copyUp(e restore.Copy) {
	r, l := t.replica, t.lookups[e.Number]
	now := r.sim.key.at
	r.perform(r.machine.PublishBlocks(), now)
	deadline, sources := now.Add(e.Within), l.sources[:len(e.Blocks)]
	from := t.book(sources, max(1, e.Parts))
	c := t.newCopy(e, l, sources)
	c.fetchAll(deadline)
	arrives := make([]time.Time, max(1, e.Parts))
	for part := range arrives {
		arrives[part] = c.partEnds(part, now)
		for _, reads := range from {
			if reads.blocks > 0 {
				arrives[part] = latest(arrives[part], reads.partEnds(part))
			}
		}
		if e.Gate && !arrives[part].After(deadline) {
			elapsed := arrives[part].Sub(now)
			t.after(elapsed, func() {
				if c.connected() {
					t.performRestore(t.restores.Arrived(e.Number, part+1, e.Parts, elapsed))
				}
			})
		}
	}
	if e.Gate {
		t.gates[e.Number] = &gate{arrives, deadline, kv.GateTimeout}
	}
	ends := c.readAll(from, now, deadline)
	r.sim.record.restore(r, e, c.expected(deadline))
	t.after(ends.Sub(now), c.end)
}

// book books the reads of each tier.
func (t *tiering) book(sources []int, parts int) []*reads {
	counts, size := make([]int, len(t.tiers)), t.replica.model.blockSize()
	for _, source := range sources {
		if source < len(t.tiers) {
			counts[source]++
		}
	}
	all, d := make([]*reads, len(t.tiers)), t.replica.device
	for i, below := range t.tiers {
		if below.name == nvmeTier {
			all[i] = d.node.read.read(counts[i], size, parts, d.up.time(size))
			continue
		}
		all[i] = d.up.read(counts[i], size, parts, 0)
	}
	return all
}

// abort is why a step ends early.
type abort struct {
	entry int // whose gate failed
	why   string
}

// pass returns when a step ends that passes the gates of its entries, and why it is aborted; nil: it is not.
func (t *tiering) pass(entries []batch.Entry, begins time.Time, took time.Duration) (time.Time, *abort) {
	var gates []*gate
	for i := range entries {
		if e := &entries[i]; e.Restoring {
			if gates == nil {
				gates = make([]*gate, len(entries))
			}
			gates[i] = t.gates[t.restores.Gate(e.ID)]
		}
	}
	return passAll(gates, begins, took)
}

// passAll returns when a step ends that passes gates, which are nil for entries without one, before each part. Each
// part takes as long as the others.
func passAll(gates []*gate, begins time.Time, took time.Duration) (time.Time, *abort) {
	parts, at := 1, begins
	for _, g := range gates {
		if g != nil {
			parts = len(g.arrives)
		}
	}
	for part := range parts {
		for i, g := range gates {
			if g == nil {
				continue
			}
			arrives := g.arrives[part]
			if arrives.After(g.deadline) && !g.deadline.After(at.Add(g.left)) {
				return latest(at, g.deadline), &abort{i, "a part of its blocks did not arrive in time"}
			}
			wait := max(0, arrives.Sub(at))
			if wait > g.left {
				return at.Add(g.left), &abort{i, "the step waited too long for a part of its blocks"}
			}
			g.left -= wait
			at = at.Add(wait)
		}
		at = at.Add(took*time.Duration(part+1)/time.Duration(parts) - took*time.Duration(part)/time.Duration(parts))
	}
	return at, nil
}
