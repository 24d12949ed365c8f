package quota

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Usage is what one gateway reports of a client.
type Usage struct {
	Client                       string
	Limits                       Limits  // as the gateway knows them
	Requests, Tokens             int64   // in flight
	SpentRequests, SpentTokens   int64   // of the limits by minute, since the gateway started
	MinuteRequests, MinuteTokens float64 // left of them
	Totals                       Totals
}

// Usage returns what reported clients use here, in the order of names.
func (l *Ledger) Usage(now time.Time) (all []Usage) {
	for _, name := range slices.Sorted(maps.Keys(l.clients)) {
		if c := l.clients[name]; c.Reported {
			all = append(all, l.find(now, c.Client).usage())
		}
	}
	return all
}

func (c *client) usage() Usage {
	return Usage{
		Client: c.Name, Limits: c.Limits, Requests: c.requests, Tokens: c.tokens, SpentRequests: c.spent.requests, SpentTokens: c.spent.tokens,
		MinuteRequests: c.minute.requests.level, MinuteTokens: c.minute.tokens.level, Totals: c.totals,
	}
}

// Peer takes the report of another gateway: all that it has. A report of a new incarnation starts from nothing.
func (l *Ledger) Peer(now time.Time, node string, incarnation uint64, all []Usage) {
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
		if c.Limits == (Limits{}) { // it has sent nothing here yet
			c.Limits = u.Limits
		}
		c.take(now, node, u, fresh, known)
	}
	for name, c := range l.clients {
		if !named[name] {
			delete(c.peers, node)
		}
	}
}

// take applies what a peer spent since its last report. Of a peer that was not heard of before nothing is known but what
// it has left.
func (c *client) take(now time.Time, node string, u Usage, fresh, known bool) {
	last := c.peers[node]
	if fresh {
		last = Usage{}
	}
	c.minute.requests.fill(now, c.Limits.RequestsPerMinute)
	c.minute.tokens.fill(now, c.Limits.TokensPerMinute)
	if known {
		c.minute.requests.level -= float64(u.SpentRequests - last.SpentRequests)
		c.minute.tokens.level -= float64(u.SpentTokens - last.SpentTokens)
	} else {
		c.minute.requests.level = min(c.minute.requests.level, u.MinuteRequests)
		c.minute.tokens.level = min(c.minute.tokens.level, u.MinuteTokens)
	}
	c.peers[node] = u
}

// Forget drops the gateways that have left, with what they had in flight.
func (l *Ledger) Forget(lives func(node string) bool) {
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

// Whole returns what reported clients use in the cluster, in the order of names. What is left is as this gateway knows it.
func (l *Ledger) Whole(now time.Time) []Usage {
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

// Standing is how a client stands with one of its limits by minute.
type Standing struct {
	Limit, Left int64
	Reset       time.Duration // until all of it is there again
}

// Standing returns how a client stands with its limits by minute.
func (l *Ledger) Standing(now time.Time, who Client) (requests, tokens Standing) {
	c := l.find(now, who)
	defer l.forget(c)
	of := func(b *bucket) Standing {
		return Standing{Limit: b.limit, Left: b.left(), Reset: b.after(float64(b.limit))}
	}
	return of(&c.minute.requests), of(&c.minute.tokens)
}
