package gateway

import (
	"sync"
	"time"

	"troupe/core/quota"
	"troupe/gateway/apikey"
	"troupe/gateway/openai"
	"troupe/messages"
)

// Quotas counts what clients have in flight and use. It is held above the actors, as calls are, so that a crash loses no
// count. It is safe for concurrent use.
type Quotas struct {
	incarnation uint64

	mu     sync.Mutex
	ledger *quota.Ledger
}

// defaultInFlight is Config.MaxInFlight where none is given.
const defaultInFlight = 4096

// NewQuotas returns the counts of a gateway that serves so many requests at once; 0: the default number.
func NewQuotas(maxInFlight int) *Quotas {
	if maxInFlight == 0 {
		maxInFlight = defaultInFlight
	}
	return &Quotas{incarnation: uint64(time.Now().UnixNano()), ledger: quota.New(maxInFlight)}
}

// keyPrefix begins the names of clients that show a key.
const keyPrefix = "key:"

// client returns who a request is counted to, and the client's weight.
func (c caller) client() (who quota.Client, weight float64) {
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

// turn is a request that was let in.
type admission struct {
	quotas    *Quotas
	client    quota.Client
	reserved  int64
	gen       *generation // nil until its tokens are reserved
	onRelease func()
}

// enter lets a request in, or refuses it.
func (g *Gateway) admit(c caller) (*admission, *openai.Error) {
	s := g.cfg.Quotas
	who, _ := c.client()
	s.mu.Lock()
	defer s.mu.Unlock()
	if refusal := s.ledger.Enter(time.Now(), who); refusal != nil {
		return nil, quotaError(refusal)
	}
	g.metrics.inFlight.Inc()
	return &admission{quotas: s, client: who, onRelease: g.metrics.inFlight.Dec}, nil
}

// reserve counts the tokens that a generation may use.
func (t *admission) reserve(gen *generation) error {
	n := int64(gen.maxTokens())
	t.quotas.mu.Lock()
	defer t.quotas.mu.Unlock()
	if refusal := t.quotas.ledger.Reserve(time.Now(), t.client, n); refusal != nil {
		return quotaError(refusal)
	}
	t.reserved, t.gen = n, gen
	return nil
}

// leave counts the request out, with what it has used.
func (t *admission) release() {
	var used openai.Usage
	if t.gen != nil {
		used = t.gen.usage()
		if !t.gen.started() {
			used = openai.Usage{}
		}
	}
	t.quotas.mu.Lock()
	defer t.quotas.mu.Unlock()
	t.quotas.ledger.Leave(time.Now(), t.client.Name, t.reserved, int64(used.Prompt), int64(used.Completion))
	t.onRelease()
}

// countRefused counts a request that its key does not allow.
func (g *Gateway) countRefused(c caller) {
	s := g.cfg.Quotas
	who, _ := c.client()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Refused(time.Now(), who)
}

// rateStatus returns how a client stands with its limits by minute.
func (s *Quotas) rateStatus(who quota.Client) (requests, tokens quota.RateStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.RateStatus(time.Now(), who)
}

// usage returns what reported clients use through this gateway.
func (s *Quotas) usage() []quota.Usage {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.Usage(time.Now())
}

// most is how many tokens a generation may use: its prompts, and max_tokens of every choice.
func (gen *generation) maxTokens() (n int) {
	for i, c := range gen.choices {
		if i%gen.request.N == 0 {
			n += len(c.prompt)
		}
		n += int(c.call.Sequence.GetSampling().GetMaxTokens())
	}
	return n
}

// begun reports whether anything of a generation was computed.
func (gen *generation) started() bool {
	for _, c := range gen.choices {
		if c.started {
			return true
		}
	}
	return false
}

// quotaError is the answer to a request that its client's limits or share do not allow.
func quotaError(r *quota.Refusal) *openai.Error {
	if r.Reason == quota.TooLarge {
		return openai.Invalid("max_tokens", r.Detail)
	}
	e := openai.Refusal(messages.Reason_REASON_QUEUE_FULL, r.Detail)
	e.RetryAfter = r.After
	return e
}
