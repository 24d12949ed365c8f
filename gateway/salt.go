package gateway

import (
	"time"

	"troupe/gateway/openai"
	"troupe/messages"
)

// saltRetryAfter is when a client may try again that was refused because the cluster secret is not known.
const saltRetryAfter = time.Second

// salt returns the salt of the KV blocks that a request of a caller may reuse and leaves behind. Without one
// where one is needed, the request must not be served: it would share blocks with every other client.
func (g *Gateway) salt(c caller, cacheSalt string) ([]byte, error) {
	salt, err := g.cfg.Salt(c.tenant(), cacheSalt)
	if err == nil {
		return salt, nil
	}
	e := openai.Refusal(messages.Reason_REASON_NOT_READY, err.Error()+"; try again later")
	e.RetryAfter = saltRetryAfter
	return nil, e
}
