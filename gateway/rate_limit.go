package gateway

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"troupe/core/quota"
	"troupe/gateway/openai"
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
