package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Usage is one gateway's report about a client.
type Usage struct {
	Client                       string
	Limits                       Limits  // as known by the gateway
	Requests, Tokens             int64   // in flight
	SpentRequests, SpentTokens   int64   // of the limits per minute, since the gateway started
	MinuteRequests, MinuteTokens float64 // what remains of the limits per minute
	Totals                       Totals
}

// Usage returns the usage of reported clients at this gateway, sorted by name.
func (l *Ledger) Usage(now time.Time) (all []Usage) {
	for _, name := range slices.Sorted(maps.Keys(l.clients)) {
		if c := l.clients[name]; c.Reported {
			all = append(all, l.lookup(now, c.Client).usage())
		}
	}
	return all
}

func (c *client) usage() Usage {
	return Usage{
		Client: c.Name, Limits: c.Limits, Requests: c.requests, Tokens: c.tokens, SpentRequests: c.spent.requests,
		SpentTokens:    c.spent.tokens,
		MinuteRequests: c.minute.requests.level, MinuteTokens: c.minute.tokens.level, Totals: c.totals,
	}
}

// ApplyReport applies the report of another gateway, which covers all its clients. A report of a
// new incarnation starts from zero.
func (l *Ledger) ApplyReport(now time.Time, node string, incarnation uint64, all []Usage) {
	last, known := l.peers[node]
	if known && incarnation < last {
		return
	}
	fresh := !known || incarnation != last
	l.peers[node] = incarnation
	named := make(map[string]bool, len(all))
	for _, u := range all {
		named[u.Client] = true
		c := l.clients[u.Client]
		if c == nil {
			c = &client{Client: Client{Name: u.Client, Reported: true}, peers: make(map[string]Usage)}
			l.clients[u.Client] = c
		}
		if c.Limits == (Limits{}) { // not seen at this gateway yet
			c.Limits = u.Limits
		}
		c.applyReport(now, node, u, fresh, known)
	}
	for name, c := range l.clients {
		if !named[name] {
			delete(c.peers, node)
		}
	}
}

// applyReport applies what a peer has spent since its last report. For a peer without an earlier
// report, only its remaining amounts are known.
func (c *client) applyReport(now time.Time, node string, u Usage, newIncarnation, known bool) {
	last := c.peers[node]
	if newIncarnation {
		last = Usage{}
	}
	c.minute.requests.refill(now, c.Limits.RequestsPerMinute)
	c.minute.tokens.refill(now, c.Limits.TokensPerMinute)
	if known {
		c.minute.requests.level -= float64(u.SpentRequests - last.SpentRequests)
		c.minute.tokens.level -= float64(u.SpentTokens - last.SpentTokens)
	} else {
		c.minute.requests.level = min(c.minute.requests.level, u.MinuteRequests)
		c.minute.tokens.level = min(c.minute.tokens.level, u.MinuteTokens)
	}
	c.peers[node] = u
}

// RemovePeers removes the gateways that have left, with their requests in flight.
func (l *Ledger) RemovePeers(lives func(node string) bool) {
	for node := range l.peers {
		if lives(node) {
			continue
		}
		delete(l.peers, node)
		for _, c := range l.clients {
			delete(c.peers, node)
		}
	}
}

// ClusterUsage returns the usage of reported clients in the cluster, sorted by name. Remaining
// amounts are as known by this gateway.
func (l *Ledger) ClusterUsage(now time.Time) []Usage {
	all := l.Usage(now)
	for i := range all {
		for _, u := range l.clients[all[i].Client].peers {
			all[i].add(u)
		}
	}
	return slices.SortedFunc(slices.Values(all), func(a, b Usage) int { return cmp.Compare(a.Client, b.Client) })
}

func (u *Usage) add(v Usage) {
	u.Requests, u.Tokens = u.Requests+v.Requests, u.Tokens+v.Tokens
	u.SpentRequests, u.SpentTokens = u.SpentRequests+v.SpentRequests, u.SpentTokens+v.SpentTokens
	t, w := &u.Totals, v.Totals
	t.Requests, t.Refused = t.Requests+w.Requests, t.Refused+w.Refused
	t.PromptTokens, t.OutputTokens = t.PromptTokens+w.PromptTokens, t.OutputTokens+w.OutputTokens
}

// RateStatus is a client's status under one of its limits per minute.
type RateStatus struct {
	Limit, Remaining int64
	Reset            time.Duration // until the limit is fully available again
}

// RateStatus returns a client's status under its limits per minute.
func (l *Ledger) RateStatus(now time.Time, who Client) (requests, tokens RateStatus) {
	c := l.lookup(now, who)
	defer l.dropIdle(c)
	of := func(b *bucket) RateStatus {
		return RateStatus{Limit: b.limit, Remaining: b.available(), Reset: b.timeUntil(float64(b.limit))}
	}
	return of(&c.minute.requests), of(&c.minute.tokens)
}
