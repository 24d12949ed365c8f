package bulk

import "sync/atomic"

// Stats are totals since the plane was opened, and what is open now.
type Stats struct {
	Sent      map[string]Sent // by address of the receiver
	Received  Received
	Transfers int // that are expected now
	Inbound   int // connections from other nodes, now
	Outbound  int // connections to other nodes, now
}

// Sent counts what went to one peer. What was sent again counts in all.
type Sent struct {
	Bytes, Chunks uint64
	Retries       uint64 // chunks to be sent again: they came damaged, or their connection was lost before they were acknowledged
	Reconnects    uint64 // times that a Send went on after its connection was lost or could not be made
}

// Received counts what came from all peers.
type Received struct {
	Bytes, Chunks uint64 // taken by put
	Repeated      uint64 // chunks dropped, since put had taken them before
	Damaged       uint64 // chunks refused, since their sum was wrong
}

// Stats reads the counters.
func (p *Plane) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{Sent: map[string]Sent{}, Received: p.received.read(), Transfers: len(p.transfers), Inbound: len(p.inbounds), Outbound: p.links}
	for address, to := range p.peers {
		s.Sent[address] = Sent{to.bytes.Load(), to.chunks.Load(), to.retries.Load(), to.reconnects.Load()}
	}
	return s
}

// received counts chunks as they are answered for.
type received struct{ bytes, chunks, repeated, damaged atomic.Uint64 }

func (r *received) taken(c *chunk, fresh bool) {
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
