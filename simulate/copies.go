package simulate

import (
	"math"
	"slices"
	"time"
)

// pipe is a disk or a link. The copies that use it share its bandwidth equally.
type pipe struct {
	bandwidth float64 // bytes per second
	users     int
	slow      slowdown
	cuts, cut int // faults that cut it: those that last, and all so far
}

// share returns the bytes per second of each of the copies that use the pipe.
func (p *pipe) share() float64 {
	if p.cuts > 0 {
		return 0
	}
	return p.bandwidth / p.slow.factor() / float64(p.users)
}

// copying is a copy of bytes over some pipes, as fast as the slowest of its shares.
type copying struct {
	pipes  []*pipe
	left   float64 // bytes
	rate   float64
	stalls time.Duration // how long it may have no bytes
	done   func(ok bool)
}

// copies has the copies in progress. One event of the queue is the end of the first of them.
type copies struct {
	sim   *simulation
	index int
	all   []*copying // in the order in which they began
	last  time.Time  // until which they have progressed
}

// begin begins a copy. Before the beginning of the simulation it takes no time.
func (c *copies) begin(bytes int64, done func(ok bool), pipes ...*pipe) *copying {
	if c.sim.starting() {
		c.sim.post(func() { done(true) })
		return nil
	}
	c.progress()
	one := &copying{pipes: pipes, left: float64(bytes), stalls: stallTimeout, done: done}
	for _, p := range pipes {
		p.users++
	}
	c.all = append(c.all, one)
	c.plan()
	return one
}

// abort ends a copy that has not ended. Its caller learns that it failed.
func (c *copies) abort(one *copying) {
	at := slices.Index(c.all, one)
	if at < 0 {
		return
	}
	c.progress()
	c.remove(at)
	c.plan()
	c.sim.post(func() { one.done(false) })
}

// change changes the bandwidth of pipes.
func (c *copies) change(bandwidth func()) {
	c.progress()
	bandwidth()
	c.plan()
}

func (c *copies) remove(at int) {
	for _, p := range c.all[at].pipes {
		p.users--
	}
	c.all = slices.Delete(c.all, at, at+1)
}

// progress counts the bytes that were copied since the last change.
func (c *copies) progress() {
	took := c.sim.key.at.Sub(c.last).Seconds()
	c.last = c.sim.key.at
	for _, one := range c.all {
		one.left -= took * one.rate
	}
}

// plan computes the shares of all copies, and plans the first end.
func (c *copies) plan() {
	c.sim.queue.clear(c.index)
	first := math.Inf(1)
	for _, one := range c.all {
		one.rate = math.Inf(1)
		for _, p := range one.pipes {
			one.rate = min(one.rate, p.share())
		}
		if one.rate > 0 {
			first = min(first, one.left/one.rate)
		}
	}
	if !math.IsInf(first, 1) {
		wait := time.Duration(math.Ceil(max(0, first) * 1e9))
		c.sim.queue.set(key{c.sim.key.at.Add(wait), copyEnds, c.index})
	}
}

// handle ends the copies that have no bytes left.
func (c *copies) handle(key) {
	c.progress()
	for at := 0; at < len(c.all); {
		if one := c.all[at]; one.left < 0.5 {
			c.remove(at)
			c.sim.post(func() { one.done(true) })
		} else {
			at++
		}
	}
	c.plan()
}
