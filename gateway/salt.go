package gateway

import (
	"time"

	"troupe/gateway/openai"
	"troupe/messages"
)

// saltRetryAfter is the Retry-After of a request that is refused because the cluster secret is not
// known.
const saltRetryAfter = time.Second

// salt returns the salt of the KV blocks of a request. If a salt is needed but not available, it
// returns an error: without a salt, the request would share blocks with all other clients.
func (g *Gateway) salt(c caller, cacheSalt string) ([]byte, error) {
	salt, err := g.cfg.Salt(c.tenant(), cacheSalt)
	if err == nil {
		return salt, nil
	}
	e := openai.Refusal(messages.Reason_REASON_NOT_READY, err.Error()+"; try again later")
	e.RetryAfter = saltRetryAfter
	return nil, e
}
