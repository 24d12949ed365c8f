package simulate

import (
	"fmt"
	"slices"
	"time"

	"troupe/core/kv"
	"troupe/core/restore"
)

// upward is a copy of the leading blocks of a lookup to HBM.
type upward struct {
	*tiering
	restore.Copy
	lookup  *lookup
	sources []int     // by block; see lookup
	began   time.Time // of the copy
	arrived []bool    // by block
	fetches []*fetch
	firsts  []int // by fetch: its first block
	pending int   // what has not ended: the reads from tiers, and each fetch
	result  restore.Result
}

func (t *tiering) newCopy(e restore.Copy, l *lookup, sources []int) *upward {
	return &upward{tiering: t, Copy: e, lookup: l, sources: sources, began: t.replica.sim.key.at, pending: 1,
		arrived: make([]bool, len(sources)), result: restore.Result{Reads: make([]restore.Read, len(t.tiers))}}
}

// fetchAll fetches each run of blocks that one holder has, until a deadline.
func (c *upward) fetchAll(deadline time.Time) {
	r := c.replica
	for i := 0; i < len(c.sources); {
		n := 1
		for i+n < len(c.sources) && c.sources[i+n] == c.sources[i] {
			n++
		}
		if at := c.sources[i] - len(c.tiers); at >= 0 {
			f := &fetch{id: fmt.Sprintf("%s-%d", c.lookup.id, i), from: c.lookup.runs[at],
				hashes: c.lookup.hashes[i : i+n],
				space:  c.space, bytes: r.model.blockSize(), parts: max(1, c.Parts), to: r.device}
			first := i
			f.ended = func(had int) { c.fetched(f, first, had) }
			c.fetches, c.firsts, c.pending = append(c.fetches, f), append(c.firsts, i), c.pending+1
			r.device.node.remote.fetch(f, deadline.Sub(c.began))
		}
		i += n
	}
}

// partEnds returns when a part of the blocks of other replicas and nodes has arrived, or a time
// long after if that is not known.
func (c *upward) partEnds(part int, now time.Time) time.Time {
	for _, f := range c.fetches {
		if f.transfer == nil || f.transfer.blocks < len(f.hashes) {
			return now.Add(time.Hour)
		}
		now = latest(now, f.transfer.partEnds(part))
	}
	return now
}

// readAll notes which blocks of tiers arrive until a deadline, and returns when the last of them
// does.
func (c *upward) readAll(from []*reads, now, deadline time.Time) (ends time.Time) {
	ends = now
	late, size := make([]bool, len(c.tiers)), c.replica.model.blockSize()
	for i, source := range c.sources {
		if source >= len(c.tiers) {
			continue
		}
		read, at := &c.result.Reads[source], from[source].blockEnds()
		if at.After(deadline) {
			late[source] = true
			c.result.Why = "not all blocks arrived in time"
			continue
		}
		ends, c.arrived[i] = latest(ends, at), true
		// A rate of no time at all would not be a measurement.
		read.Bytes, read.Took = read.Bytes+size, max(read.Took, at.Sub(now), 1)
	}
	for i, is := range late {
		if !is {
			continue
		}
		// At least one block took this long. If it were not counted, a tier that became slow would
		// keep its rate.
		read := &c.result.Reads[i]
		read.Bytes, read.Took = max(read.Bytes, size), deadline.Sub(now)
		from[i].cut(deadline)
		ends = deadline
	}
	return ends
}

// expected returns the number of leading blocks that are expected to arrive until a deadline.
func (c *upward) expected(deadline time.Time) (n int) {
	there := slices.Clone(c.arrived)
	for k, f := range c.fetches {
		for i := range f.transfer.arrived(deadline) {
			there[c.firsts[k]+i] = true
		}
	}
	for n < len(there) && there[n] {
		n++
	}
	return n
}

// fetched ends a fetch, of which the holder has sent some blocks, or none. What had arrived by then
// counts.
func (c *upward) fetched(f *fetch, first, had int) {
	if c.closed {
		return
	}
	now := c.replica.sim.key.at
	if had == 0 && f.transfer != nil && f.connected() {
		had = f.transfer.arrived(now)
	}
	for i := range had {
		c.arrived[first+i] = true
	}
	wanted := len(f.hashes)
	if c.result.Fetched, c.result.FetchFailed = c.result.Fetched+had, c.result.FetchFailed+wanted-had; had < wanted {
		c.result.Why = "not all blocks of others arrived"
	}
	sample := kv.FetchSample{Blocks: had, BlockBytes: int(f.bytes), First: now.Sub(c.began), All: now.Sub(c.began)}
	if had > 0 {
		x := f.transfer
		sample.Bytes, sample.FirstBytes = int64(had)*f.bytes, f.bytes/int64(x.parts)
		sample.First = x.begins.Add(x.took / time.Duration(x.blocks*x.parts)).Sub(c.began)
	}
	n := c.replica.device.node
	n.remote.machine.Fetched(f.from.Name, f.from.Node, wanted, sample, now)
	c.replica.touch()
	c.end()
}

// connected reports whether all holders are still reached.
func (c *upward) connected() bool {
	return !slices.ContainsFunc(c.fetches, func(f *fetch) bool { return !f.connected() })
}

// connected reports whether the holder of a fetch is still reached.
func (f *fetch) connected() bool {
	n := f.to.sim.nodes[f.from.Holder.Address]
	return n != nil && n.reaches(f.to.node)
}

// end ends the reads from tiers, or a fetch. After the last of them, the copy has ended.
func (c *upward) end() {
	if c.pending--; c.pending > 0 {
		return
	}
	for c.result.Blocks < len(c.arrived) && c.arrived[c.result.Blocks] {
		source := remoteTierName
		if at := c.sources[c.result.Blocks]; at < len(c.tiers) {
			source = c.tiers[at].name
		}
		c.restored[source]++
		c.result.Blocks++
	}
	c.unlock(c.lookup, c.Number)
	c.event(func() { c.performRestore(c.restores.Copied(c.Number, c.result)) })
}
