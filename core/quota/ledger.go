package quota

import (
	"fmt"
	"time"
)

// Limits of a client in the whole cluster. Zero: no limit.
type Limits struct {
	Requests          int64 // in flight
	Tokens            int64 // in flight
	RequestsPerMinute int64
	TokensPerMinute   int64
}

// Client is who a request is counted to.
type Client struct {
	Name   string
	Limits Limits
	// Reported: its counts are told to other gateways, and are kept while it has nothing in flight. Only for clients of a
	// bounded set.
	Reported bool
}

// Reason says why a request was refused.
type Reason int

// Reasons.
const (
	Full     Reason = iota + 1 // all places of this gateway are taken
	Share                      // the client has as many as others leave it
	Limit                      // a limit of the client is reached; After says for how long
	TooLarge                   // the request alone is above a limit of tokens
)

// Refusal is why a request was not taken.
type Refusal struct {
	Reason Reason
	Detail string
	After  time.Duration // when to try again; 0 with TooLarge: never
}

// Ledger counts the requests of one gateway. It is not safe for concurrent use.
type Ledger struct {
	places   int
	inFlight int
	clients  map[string]*client
	peers    map[string]uint64 // node -> incarnation of its last report
}

// client is what one client uses.
type client struct {
	Client
	requests, tokens int64 // in flight here
	minute           struct{ requests, tokens bucket }
	spent            struct{ requests, tokens int64 } // of buckets, here, since the start
	totals           Totals
	peers            map[string]Usage // node -> its last report
}

// Totals are what a client has used at one gateway since it started.
type Totals struct{ Requests, Refused, PromptTokens, OutputTokens int64 }

// New returns the ledger of a gateway that serves so many requests at once.
func New(places int) *Ledger {
	return &Ledger{places: places, clients: make(map[string]*client), peers: make(map[string]uint64)}
}

// InFlight is the number of requests in flight here.
func (l *Ledger) InFlight() int { return l.inFlight }

// find returns the client with its buckets filled.
func (l *Ledger) find(now time.Time, who Client) *client {
	c := l.clients[who.Name]
	if c == nil {
		c = &client{peers: make(map[string]Usage)}
		l.clients[who.Name] = c
	}
	c.Client = who
	c.minute.requests.fill(now, who.Limits.RequestsPerMinute)
	c.minute.tokens.fill(now, who.Limits.TokensPerMinute)
	return c
}

// Enter counts a request in, or refuses it. Each Enter that is not refused is followed by one Leave.
func (l *Ledger) Enter(now time.Time, who Client) *Refusal {
	c := l.find(now, who)
	refusal := l.refuse(c)
	if refusal != nil {
		c.totals.Refused++
		l.forget(c)
		return refusal
	}
	l.inFlight++
	c.requests++
	c.totals.Requests++
	c.spend(1, 0)
	return nil
}

func (l *Ledger) refuse(c *client) *Refusal {
	requests, tokens := c.inFlight()
	switch {
	case l.inFlight >= l.places:
		return &Refusal{Full, "too many requests are being served; try again in a moment", time.Second}
	case c.requests >= l.share(c):
		return &Refusal{Share, fmt.Sprintf("this client has %d requests in flight, which is its share of this gateway; send fewer at once", c.requests), time.Second}
	case c.Limits.Requests > 0 && requests >= c.Limits.Requests:
		return &Refusal{Limit, fmt.Sprintf("%d requests of this key are in flight, and its limit is %d; send fewer at once", requests, c.Limits.Requests), time.Second}
	case c.Limits.Tokens > 0 && tokens >= c.Limits.Tokens:
		return c.tooManyTokens(tokens)
	case c.minute.requests.after(1) > 0:
		return &Refusal{Limit, fmt.Sprintf("this key may send %d requests a minute, which are used up", c.Limits.RequestsPerMinute), c.minute.requests.after(1)}
	case c.minute.tokens.after(1) > 0:
		return &Refusal{Limit, fmt.Sprintf("this key may use %d tokens a minute, which are used up", c.Limits.TokensPerMinute), c.minute.tokens.after(1)}
	}
	return nil
}

func (c *client) tooManyTokens(tokens int64) *Refusal {
	return &Refusal{Limit, fmt.Sprintf("requests of this key have %d tokens in flight, and its limit is %d; send fewer at once, or lower max_tokens", tokens, c.Limits.Tokens), time.Second}
}

// share is how many requests a client may hold: half of what the others leave, and at least one.
func (l *Ledger) share(c *client) int64 {
	others := int64(l.inFlight) - c.requests
	return max(1, (int64(l.places)-others)/2)
}

// inFlight is what the client has in flight in the cluster.
func (c *client) inFlight() (requests, tokens int64) {
	requests, tokens = c.requests, c.tokens
	for _, u := range c.peers {
		requests, tokens = requests+u.Requests, tokens+u.Tokens
	}
	return requests, tokens
}

// spend takes from both buckets.
func (c *client) spend(requests, tokens int64) {
	c.spent.requests, c.spent.tokens = c.spent.requests+requests, c.spent.tokens+tokens
	c.minute.requests.level -= float64(requests)
	c.minute.tokens.level -= float64(tokens)
}

// Reserve counts the tokens that a request which has entered may use, or refuses it; then it is to Leave with none.
func (l *Ledger) Reserve(now time.Time, who Client, n int64) *Refusal {
	c := l.find(now, who)
	_, tokens := c.inFlight()
	var refusal *Refusal
	switch {
	case who.Limits.Tokens > 0 && n > who.Limits.Tokens:
		refusal = &Refusal{TooLarge, fmt.Sprintf("the request may use %d tokens, and this key may have %d in flight; lower max_tokens or n", n, who.Limits.Tokens), 0}
	case who.Limits.TokensPerMinute > 0 && n > who.Limits.TokensPerMinute:
		refusal = &Refusal{TooLarge, fmt.Sprintf("the request may use %d tokens, and this key may use %d a minute; lower max_tokens or n", n, who.Limits.TokensPerMinute), 0}
	case who.Limits.Tokens > 0 && tokens+n > who.Limits.Tokens:
		refusal = c.tooManyTokens(tokens)
	case c.minute.tokens.after(float64(n)) > 0:
		refusal = &Refusal{Limit, fmt.Sprintf("the request may use %d tokens; this key has %d left of %d a minute", n, c.minute.tokens.left(), who.Limits.TokensPerMinute), c.minute.tokens.after(float64(n))}
	}
	if refusal != nil {
		c.totals.Refused++
		return refusal
	}
	c.tokens += n
	c.spend(0, n)
	return nil
}

// Leave counts a request out. Reserved is what was reserved for it, and the rest what it used.
func (l *Ledger) Leave(now time.Time, name string, reserved, prompt, output int64) {
	c := l.clients[name]
	l.find(now, c.Client)
	l.inFlight--
	c.requests--
	c.tokens -= reserved
	c.spend(0, prompt+output-reserved)
	c.totals.PromptTokens, c.totals.OutputTokens = c.totals.PromptTokens+prompt, c.totals.OutputTokens+output
	l.forget(c)
}

// Refused counts a request that was refused for another reason.
func (l *Ledger) Refused(now time.Time, who Client) {
	c := l.find(now, who)
	c.totals.Refused++
	l.forget(c)
}

// forget drops a client with nothing in flight that nothing is kept of.
func (l *Ledger) forget(c *client) {
	if c.requests == 0 && !c.Reported {
		delete(l.clients, c.Name)
	}
}
