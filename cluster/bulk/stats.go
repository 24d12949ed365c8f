package bulk

import "sync/atomic"

// Stats are totals since the plane was opened, and the current numbers of transfers and
// connections.
type Stats struct {
	Sent      map[string]Sent // by address of the receiver
	Received  Received
	Transfers int // expected now
	Inbound   int // connections from other nodes, now
	Outbound  int // connections to other nodes, now
}

// Sent counts what was sent to one peer. Repeated chunks count each time.
type Sent struct {
	Bytes, Chunks uint64
	Retries       uint64 // chunks that arrived damaged or were unacknowledged when their connection was lost
	Reconnects    uint64 // times that a Send continued after a connection was lost or could not be made
}

// Received counts what was received from all peers.
type Received struct {
	Bytes, Chunks uint64 // put successfully
	Repeated      uint64 // chunks dropped because they had been put before
	Damaged       uint64 // chunks rejected because of a wrong sum
}

// Stats reads the counters.
func (p *Plane) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{
		Sent:      map[string]Sent{},
		Received:  p.received.read(),
		Transfers: len(p.transfers),
		Inbound:   len(p.inbounds),
		Outbound:  p.links,
	}
	for address, to := range p.peers {
		s.Sent[address] = Sent{to.bytes.Load(), to.chunks.Load(), to.retries.Load(), to.reconnects.Load()}
	}
	return s
}

// received counts the chunks that the receiver has answered.
type received struct{ bytes, chunks, repeated, damaged atomic.Uint64 }

func (r *received) count(c *chunk, fresh bool) {
	if !fresh {
		r.repeated.Add(1)
		return
	}
	r.chunks.Add(1)
	r.bytes.Add(uint64(c.length))
}

func (r *received) read() Received {
	return Received{r.bytes.Load(), r.chunks.Load(), r.repeated.Load(), r.damaged.Load()}
}
