package natskv

import (
	"slices"
	"time"
)

// flow carries parcels in one direction between a client and the server, in order. All methods
// except arrive need the server's mutex.
type flow struct {
	client  *Client
	queue   []parcel
	last    time.Time // arrival of the last parcel
	busy    bool      // a parcel is on its way, or is being handled
	once    bool      // the flow ends after one parcel
	ignored bool      // what arrives is dropped
}

type parcel struct {
	at  time.Time
	run func()
}

// newFlow adds a flow to the client.
func (c *Client) newFlow() *flow {
	f := &flow{client: c}
	c.flows = append(c.flows, f)
	return f
}

// send sends a parcel, which is run when it arrives.
func (f *flow) send(run func()) {
	now := f.client.rt.Now()
	at := now.Add(f.client.delay())
	if at.Before(f.last) {
		at = f.last
	}
	f.last = at
	f.queue = append(f.queue, parcel{at, run})
	f.next()
}

// next lets the next parcel arrive, if the connection stands.
func (f *flow) next() {
	c := f.client
	if f.busy || c.cut || !c.connected || len(f.queue) == 0 {
		return
	}
	f.busy = true
	broken := c.broken
	c.rt.AfterFunc(f.queue[0].at.Sub(c.rt.Now()), func() { f.arrive(broken) })
}

// arrive runs the next parcel, unless the connection has broken since it was sent.
func (f *flow) arrive(broken int) {
	c := f.client
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if c.broken != broken {
		return
	}
	if c.cut { // it arrives later, or never
		f.busy = false
		return
	}
	one := f.queue[0]
	f.queue = f.queue[1:]
	if f.once {
		c.flows = slices.DeleteFunc(c.flows, func(other *flow) bool { return other == f })
	}
	if !f.ignored {
		c.server.mu.Unlock()
		one.run()
		c.server.mu.Lock()
	}
	if c.broken == broken {
		f.busy = false
		f.next()
	}
}

// lose drops all parcels that are on their way.
func (f *flow) lose() { f.queue, f.busy = nil, false }
