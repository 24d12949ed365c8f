package gateway

import (
	"sync"

	"troupe/actors/supervise"
	"troupe/core/quota"
	"troupe/gateway/apikey"
	"troupe/gateway/openai"
	"troupe/messages"
)

// Quotas applies the limits of clients and counts their usage. No actor owns it, so no crash loses
// a count. It is safe for concurrent use.
type Quotas struct {
	incarnation uint64
	rt          supervise.Runtime

	mu     sync.Mutex
	ledger *quota.Ledger
}

// defaultInFlight is the default of Config.MaxInFlight.
const defaultInFlight = 4096

// NewQuotas returns the quotas of a gateway that serves at most maxInFlight requests at once. 0
// means the default. A nil rt means supervise.System.
func NewQuotas(maxInFlight int, rt supervise.Runtime) *Quotas {
	rt = supervise.OrSystem(rt)
	if maxInFlight == 0 {
		maxInFlight = defaultInFlight
	}
	return &Quotas{incarnation: uint64(rt.Now().UnixNano()), rt: rt, ledger: quota.New(maxInFlight)}
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

// enter gives a client a place for a request, or refuses it. Each place must be left.
func (q *Quotas) enter(client quota.Client) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if refusal := q.ledger.Enter(q.rt.Now(), client); refusal != nil {
		return quotaError(refusal)
	}
	return nil
}

// reserve reserves tokens for a request of a client, or refuses it.
func (q *Quotas) reserve(client quota.Client, tokens int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if refusal := q.ledger.Reserve(q.rt.Now(), client, tokens); refusal != nil {
		return quotaError(refusal)
	}
	return nil
}

// leave returns the place and the reserved tokens of a request, and counts the tokens that it used.
func (q *Quotas) leave(client quota.Client, reserved int64, used openai.Usage) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ledger.Leave(q.rt.Now(), client.Name, reserved, int64(used.Prompt), int64(used.Completion))
}

// countRefused counts a request that exceeds the priority of its key.
func (q *Quotas) countRefused(client quota.Client) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ledger.Refused(q.rt.Now(), client)
}

// rateStatus returns the state of a client's limits per minute.
func (q *Quotas) rateStatus(client quota.Client) (requests, tokens quota.RateStatus) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ledger.RateStatus(q.rt.Now(), client)
}

// usage returns the usage of API keys at this gateway.
func (q *Quotas) usage() []quota.Usage {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ledger.Usage(q.rt.Now())
}

// quotaError returns the error for a request that exceeds its client's limits or share.
func quotaError(r *quota.Refusal) *openai.Error {
	if r.Reason == quota.TooLarge {
		return openai.Invalid("max_tokens", r.Detail)
	}
	e := openai.Refusal(messages.Reason_REASON_QUEUE_FULL, r.Detail)
	e.RetryAfter = r.After
	return e
}
