package dst

import (
	"fmt"
	"slices"
	"time"
)

// scheduleClient distributes an HTTP client's request, and what the client does besides.
func (c *cluster) scheduleClient(at time.Time) {
	h := &httpClient{request: c.requests.next(fmt.Sprintf("h%d", len(c.clients))), cluster: c,
		first: c.rng.IntN(len(c.names))}
	h.split = len(h.body)
	if c.rng.IntN(4) == 0 {
		h.split, h.pause = c.rng.IntN(len(h.body)), time.Duration(c.rng.Int64N(int64(300*time.Millisecond)))
		if c.rng.IntN(10) == 0 {
			h.pause = bodyStall + time.Second
		}
	}
	if c.rng.IntN(10) == 0 {
		h.stall = 1 + c.rng.IntN(20)
	}
	c.clients = append(c.clients, h)
	c.world.at(at, func() string { return "client " + h.id + " sends" }, h.send)
	if c.rng.IntN(8) == 0 {
		leaves := at.Add(time.Duration(c.rng.Int64N(int64(2 * time.Second))))
		c.world.at(leaves, func() string { return "client " + h.id + " leaves" }, func() {
			if !h.ended {
				h.leave()
			}
		})
	}
}

// clientsEnded reports whether every client has its response, or has given up or left.
func (c *cluster) clientsEnded() bool {
	return !slices.ContainsFunc(c.clients, func(h *httpClient) bool { return !h.ended })
}

// checkClients checks the responses of all clients.
func (c *cluster) checkClients() {
	c.checkLimits()
	for _, h := range c.clients {
		for _, w := range h.wrong {
			c.fail("%s: %s", h.id, w)
		}
		switch {
		case h.node == nil:
			c.fail("%s was never sent", h.id)
		case !h.ended:
			c.fail("%s, sent %d times, the last time to %s, has no response", h.id, h.attempts, h.node.cfg.Name)
		case h.served:
			c.result.Served++
		case h.refused != "":
			c.result.Refused["HTTP "+h.refused]++
		default:
			c.result.Void++
		}
	}
}

// checkLimits checks that no gateway has served more requests of a key at once than its limit.
func (c *cluster) checkLimits() {
	for _, h := range c.clients {
		if !h.served || h.key.requests == 0 {
			continue
		}
		at, others := h.admitted(), 0
		for _, o := range c.clients {
			if o != h && o.served && o.key.name == h.key.name && o.connection.node == h.connection.node &&
				!o.admitted().After(at) && o.connection.left.After(at) {
				others++
			}
		}
		if others >= h.key.requests {
			c.fail("%s was served with %d other requests of its key, whose limit is %d", h.id, others, h.key.requests)
		}
	}
}

// admitted returns when the last attempt of a request was admitted.
func (h *httpClient) admitted() time.Time {
	if began := h.connection.began; began.After(h.sent) {
		return began
	}
	return h.sent
}
