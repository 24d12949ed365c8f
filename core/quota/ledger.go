package quota

import (
	"fmt"
	"time"
)

// Limits are the cluster-wide limits of a client. Zero means no limit.
type Limits struct {
	Requests          int64 // in flight
	Tokens            int64 // in flight
	RequestsPerMinute int64
	TokensPerMinute   int64
}

// Client is the client that a request is counted for.
type Client struct {
	Name   string
	Limits Limits
	// Reported clients are reported to other gateways, and their counts are kept while nothing is
	// in flight. Set it only for clients of a bounded set.
	Reported bool
}

// Reason is the reason for a refusal.
type Reason int

// Reasons.
const (
	Full     Reason = iota + 1 // all places of this gateway are taken
	Share                      // the client holds its share of the places
	Limit                      // a limit of the client is reached; After is the time to wait
	TooLarge                   // the request alone exceeds a token limit
)

// Refusal is the reason why a request was refused.
type Refusal struct {
	Reason Reason
	Detail string
	After  time.Duration // when to retry; 0 with TooLarge: never
}

// Ledger counts the requests of one gateway. It is not safe for concurrent use.
type Ledger struct {
	places   int
	inFlight int
	clients  map[string]*client
	peers    map[string]uint64 // node -> incarnation of its last report
}

// client tracks the usage of one client.
type client struct {
	Client
	requests, tokens int64 // in flight here
	minute           struct{ requests, tokens bucket }
	spent            struct{ requests, tokens int64 } // taken from the buckets at this gateway since its start
	totals           Totals
	peers            map[string]Usage // node -> its last report
}

// Totals are the totals of a client at one gateway since its start.
type Totals struct{ Requests, Refused, PromptTokens, OutputTokens int64 }

// New returns the ledger of a gateway; places bounds the requests served at once.
func New(places int) *Ledger {
	return &Ledger{places: places, clients: make(map[string]*client), peers: make(map[string]uint64)}
}

// lookup returns the client with refilled buckets.
func (l *Ledger) lookup(now time.Time, who Client) *client {
	c := l.clients[who.Name]
	if c == nil {
		c = &client{peers: make(map[string]Usage)}
		l.clients[who.Name] = c
	}
	c.Client = who
	c.minute.requests.refill(now, who.Limits.RequestsPerMinute)
	c.minute.tokens.refill(now, who.Limits.TokensPerMinute)
	return c
}

// Enter admits or refuses a request. Each admitted request needs exactly one Leave.
func (l *Ledger) Enter(now time.Time, who Client) *Refusal {
	c := l.lookup(now, who)
	refusal := l.refuse(c)
	if refusal != nil {
		c.totals.Refused++
		l.dropIdle(c)
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
		return &Refusal{Full, "too many requests in flight; retry in a moment", time.Second}
	case c.requests >= l.maxShare(c):
		return &Refusal{Share, fmt.Sprintf(
			"this client has %d requests in flight, its share of this gateway; send fewer at once", c.requests),
			time.Second}
	case c.Limits.Requests > 0 && requests >= c.Limits.Requests:
		return &Refusal{Limit, fmt.Sprintf(
			"this key has %d requests in flight and its limit is %d; send fewer at once",
			requests, c.Limits.Requests), time.Second}
	case c.Limits.Tokens > 0 && tokens >= c.Limits.Tokens:
		return c.tooManyTokens(tokens)
	case c.minute.requests.timeUntil(1) > 0:
		return &Refusal{Limit, fmt.Sprintf(
			"this key has used its limit of %d requests per minute", c.Limits.RequestsPerMinute),
			c.minute.requests.timeUntil(1)}
	case c.minute.tokens.timeUntil(1) > 0:
		return &Refusal{Limit, fmt.Sprintf(
			"this key has used its limit of %d tokens per minute", c.Limits.TokensPerMinute),
			c.minute.tokens.timeUntil(1)}
	}
	return nil
}

func (c *client) tooManyTokens(tokens int64) *Refusal {
	return &Refusal{Limit, fmt.Sprintf(
		"this key has %d tokens in flight and its limit is %d; send fewer requests at once, or lower max_tokens",
		tokens, c.Limits.Tokens), time.Second}
}

// maxShare returns how many requests a client may hold: half of what the others leave, and at least
// one.
func (l *Ledger) maxShare(c *client) int64 {
	others := int64(l.inFlight) - c.requests
	return max(1, (int64(l.places)-others)/2)
}

// inFlight returns the client's requests and tokens in flight in the cluster.
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

// Reserve reserves the tokens that an admitted request may use, or refuses it. After a refusal,
// call Leave with zero counts.
func (l *Ledger) Reserve(now time.Time, who Client, n int64) *Refusal {
	c := l.lookup(now, who)
	_, tokens := c.inFlight()
	var refusal *Refusal
	switch {
	case who.Limits.Tokens > 0 && n > who.Limits.Tokens:
		refusal = &Refusal{TooLarge, fmt.Sprintf(
			"the request may use %d tokens, and this key may have %d in flight; lower max_tokens or n",
			n, who.Limits.Tokens), 0}
	case who.Limits.TokensPerMinute > 0 && n > who.Limits.TokensPerMinute:
		refusal = &Refusal{TooLarge, fmt.Sprintf(
			"the request may use %d tokens, and this key may use %d per minute; lower max_tokens or n",
			n, who.Limits.TokensPerMinute), 0}
	case who.Limits.Tokens > 0 && tokens+n > who.Limits.Tokens:
		refusal = c.tooManyTokens(tokens)
	case c.minute.tokens.timeUntil(float64(n)) > 0:
		refusal = &Refusal{Limit, fmt.Sprintf(
			"the request may use %d tokens, and this key has %d left of %d per minute",
			n, c.minute.tokens.available(), who.Limits.TokensPerMinute), c.minute.tokens.timeUntil(float64(n))}
	}
	if refusal != nil {
		c.totals.Refused++
		return refusal
	}
	c.tokens += n
	c.spend(0, n)
	return nil
}

// Leave ends an admitted request. reserved is what Reserve reserved for it; prompt and output are
// the tokens that it used.
func (l *Ledger) Leave(now time.Time, name string, reserved, prompt, output int64) {
	c := l.clients[name]
	l.lookup(now, c.Client)
	l.inFlight--
	c.requests--
	c.tokens -= reserved
	c.spend(0, prompt+output-reserved)
	c.totals.PromptTokens, c.totals.OutputTokens = c.totals.PromptTokens+prompt, c.totals.OutputTokens+output
	l.dropIdle(c)
}

// Refused counts a request that was refused for another reason.
func (l *Ledger) Refused(now time.Time, who Client) {
	c := l.lookup(now, who)
	c.totals.Refused++
	l.dropIdle(c)
}

// dropIdle drops an unreported client with nothing in flight.
func (l *Ledger) dropIdle(c *client) {
	if c.requests == 0 && !c.Reported {
		delete(l.clients, c.Name)
	}
}
