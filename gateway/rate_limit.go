package gateway

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"troupe/core/quota"
	"troupe/gateway/openai"
	"troupe/messages"
)

// setRateLimitHeaders says how the caller's key stands with its limits by minute, as OpenAI does.
func (g *Gateway) setRateLimitHeaders(h http.Header, c caller) {
	who, _ := c.client()
	if who.Limits.RequestsPerMinute == 0 && who.Limits.TokensPerMinute == 0 {
		return
	}
	requests, tokens := g.cfg.Quotas.rateStatus(who)
	setRateHeaders(h, "requests", requests)
	setRateHeaders(h, "tokens", tokens)
}

func setRateHeaders(h http.Header, of string, s quota.RateStatus) {
	if s.Limit == 0 {
		return
	}
	h.Set("x-ratelimit-limit-"+of, strconv.FormatInt(s.Limit, 10))
	h.Set("x-ratelimit-remaining-"+of, strconv.FormatInt(s.Remaining, 10))
	h.Set("x-ratelimit-reset-"+of, s.Reset.Round(time.Millisecond).String())
}

// retryAfter is the header of that name, in whole seconds; empty where trying again does not help.
func retryAfter(e *openai.Error) string {
	if e.RetryAfter <= 0 && e.Status != http.StatusTooManyRequests {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(max(e.RetryAfter, time.Second).Seconds())))
}

// applyPriority gives a request its class. A deployment's default is lowered to what the key allows; what the client asks for
// itself is not changed without its knowledge.
func (g *Gateway) applyPriority(r *openai.Request, c caller, byDefault messages.PriorityClass) error {
	most := messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED
	if c.key != nil {
		most = c.key.MaxPriority
	}
	limited := most != messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED
	switch {
	case r.Priority == messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED:
		if r.Priority = byDefault; limited {
			r.Priority = min(byDefault, most)
		}
	case limited && r.Priority > most:
		g.countRefused(c)
		param := "priority"
		e := openai.Refusal(
			messages.Reason_REASON_FORBIDDEN,
			fmt.Sprintf("priority %s is above %s, the highest that API key %s may ask for",
				className(r.Priority), className(most), c.key.Name),
		)
		e.Param = &param
		return e
	}
	return nil
}

func className(c messages.PriorityClass) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "PRIORITY_CLASS_"))
}
