package gateway

import (
	"sync"
	"time"

	"troupe/core/quota"
	"troupe/gateway/apikey"
	"troupe/gateway/openai"
	"troupe/messages"
)

// Quotas applies the limits of clients and counts their usage. No actor owns it, so no crash loses
// a count. It is safe for concurrent use.
type Quotas struct {
	incarnation uint64

	mu     sync.Mutex
	ledger *quota.Ledger
}

// defaultInFlight is the default of Config.MaxInFlight.
const defaultInFlight = 4096

// NewQuotas returns the quotas of a gateway that serves at most maxInFlight requests at once. 0
// means the default.
func NewQuotas(maxInFlight int) *Quotas {
	if maxInFlight == 0 {
		maxInFlight = defaultInFlight
	}
	return &Quotas{incarnation: uint64(time.Now().UnixNano()), ledger: quota.New(maxInFlight)}
}

// keyPrefix is the prefix of client names that stand for an API key.
const keyPrefix = "key:"

// client returns the client that a request is counted for, and its weight.
func (c caller) client() (client quota.Client, weight float64) {
	switch {
	case c.key != nil:
		return clientOf(*c.key), c.key.Weight
	case c.account != "":
		return quota.Client{Name: "nats:" + c.account}, 1
	case c.address != "":
		return quota.Client{Name: "address:" + c.address}, 1
	}
	return quota.Client{Name: "nats"}, 1
}

func clientOf(k apikey.Key) quota.Client {
	return quota.Client{Name: keyPrefix + k.Name, Limits: quota.Limits(k.Limits), Reported: true}
}

// admission is an admitted request.
type admission struct {
	quotas    *Quotas
	client    quota.Client
	reserved  int64
	gen       *generation // nil until its tokens are reserved
	onRelease func()
}

// admit admits a request or refuses it. Each admitted request needs exactly one release.
func (g *Gateway) admit(c caller) (*admission, *openai.Error) {
	q := g.cfg.Quotas
	client, _ := c.client()
	q.mu.Lock()
	defer q.mu.Unlock()
	if refusal := q.ledger.Enter(time.Now(), client); refusal != nil {
		return nil, quotaError(refusal)
	}
	g.metrics.inFlight.Inc()
	return &admission{quotas: q, client: client, onRelease: g.metrics.inFlight.Dec}, nil
}

// reserve reserves the tokens that a generation may use, or refuses it.
func (a *admission) reserve(gen *generation) error {
	n := int64(gen.maxTokens())
	a.quotas.mu.Lock()
	defer a.quotas.mu.Unlock()
	if refusal := a.quotas.ledger.Reserve(time.Now(), a.client, n); refusal != nil {
		return quotaError(refusal)
	}
	a.reserved, a.gen = n, gen
	return nil
}

// release ends an admitted request and records the tokens that it used. A generation that never
// started used none.
func (a *admission) release() {
	var used openai.Usage
	if a.gen != nil {
		used = a.gen.usage()
		if !a.gen.started() {
			used = openai.Usage{}
		}
	}
	a.quotas.mu.Lock()
	defer a.quotas.mu.Unlock()
	a.quotas.ledger.Leave(time.Now(), a.client.Name, a.reserved, int64(used.Prompt), int64(used.Completion))
	a.onRelease()
}

// countRefused counts a request that exceeds the priority of its key.
func (g *Gateway) countRefused(c caller) {
	q := g.cfg.Quotas
	client, _ := c.client()
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ledger.Refused(time.Now(), client)
}

// rateStatus returns the state of a client'q limits per minute.
func (q *Quotas) rateStatus(client quota.Client) (requests, tokens quota.RateStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ledger.RateStatus(time.Now(), client)
}

// usage returns the usage of API keys at this gateway.
func (q *Quotas) usage() []quota.Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ledger.Usage(time.Now())
}

// maxTokens returns how many tokens a generation may use: its prompts and max_tokens of every
// choice.
func (gen *generation) maxTokens() (n int) {
	for i, c := range gen.choices {
		if i%gen.request.N == 0 {
			n += len(c.prompt)
		}
		n += int(c.call.Sequence.GetSampling().GetMaxTokens())
	}
	return n
}

// started reports whether any tokens of a generation were delivered.
func (gen *generation) started() bool {
	for _, c := range gen.choices {
		if c.started {
			return true
		}
	}
	return false
}

// quotaError returns the error for a request that exceeds its client'q limits or share.
func quotaError(r *quota.Refusal) *openai.Error {
	if r.Reason == quota.TooLarge {
		return openai.Invalid("max_tokens", r.Detail)
	}
	e := openai.Refusal(messages.Reason_REASON_QUEUE_FULL, r.Detail)
	e.RetryAfter = r.After
	return e
}
