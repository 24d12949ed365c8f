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

// setRateLimitHeaders sets OpenAI's rate limit headers from the caller's limits per minute.
func (g *Gateway) setRateLimitHeaders(h http.Header, c caller) {
	client, _ := c.client()
	if client.Limits.RequestsPerMinute == 0 && client.Limits.TokensPerMinute == 0 {
		return
	}
	requests, tokens := g.cfg.Quotas.rateStatus(client)
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

// retryAfter returns the value of the Retry-After header in whole seconds, or "" if a retry does
// not help.
func retryAfter(e *openai.Error) string {
	if e.RetryAfter <= 0 && e.Status != http.StatusTooManyRequests {
		return ""
	}
	return strconv.Itoa(int(math.Ceil(max(e.RetryAfter, time.Second).Seconds())))
}

// applyPriority sets the priority class of a request. The deployment's default is lowered to the
// key's maximum. An explicit class above it is refused rather than lowered.
func (g *Gateway) applyPriority(r *openai.Request, c caller, deploymentDefault messages.PriorityClass) error {
	most := messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED
	if c.key != nil {
		most = c.key.MaxPriority
	}
	limited := most != messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED
	switch {
	case r.Priority == messages.PriorityClass_PRIORITY_CLASS_UNSPECIFIED:
		if r.Priority = deploymentDefault; limited {
			r.Priority = min(deploymentDefault, most)
		}
	case limited && r.Priority > most:
		g.countRefused(c)
		param := "priority"
		e := openai.Refusal(messages.Reason_REASON_FORBIDDEN, fmt.Sprintf(
			"priority %s is above %s, the highest class that API key %s may use",
			className(r.Priority), className(most), c.key.Name))
		e.Param = &param
		return e
	}
	return nil
}

func className(c messages.PriorityClass) string {
	return strings.ToLower(strings.TrimPrefix(c.String(), "PRIORITY_CLASS_"))
}
