package dst

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/messages"
)

// refuse records that the request was refused and checks that there is a reason. status is 200 if
// the response had begun.
func (h *httpClient) refuse(status int, header http.Header) {
	e := h.response.failed
	if e == nil {
		h.fail("status %d without an error", status)
		h.refused = "no error"
		return
	}
	code := ""
	if e.Code != nil {
		code = *e.Code
	}
	h.refused = strings.TrimSpace(strconv.Itoa(status) + " " + code)
	if status != http.StatusOK {
		earlier.add(httpError(status, code))
	}
	if !h.explains(status, code, e) {
		h.fail("refused by %s after %v: status %d, %s, code %q: %s", h.node.cfg.Name, time.Since(h.sent), status,
			e.Type, code, e.Message)
	}
	if after, err := strconv.Atoi(header.Get("Retry-After")); status == http.StatusTooManyRequests &&
		(err != nil || after < 1) {
		h.fail("status 429 with Retry-After %q", header.Get("Retry-After"))
	}
}

// explains reports whether the request, the load, or a fault is a reason for an error.
func (h *httpClient) explains(status int, code string, e *apiError) bool {
	begun := status == http.StatusOK
	says := func(text string) bool { return strings.Contains(e.Message, text) }
	server, client := e.Type == "server_error", e.Type == "invalid_request_error"
	if status == h.status && client && status < 500 && !begun {
		return true
	}
	switch {
	case code == "rate_limit_exceeded":
		limited := !says("this key") || h.key.limited && !begun
		return e.Type == "rate_limit_error" && (begun || status == http.StatusTooManyRequests) && limited
	case code == "timeout":
		return server && (begun || status == http.StatusGatewayTimeout) && h.timeout > 0 &&
			time.Since(h.sent) >= h.timeout || h.cluster.expects(messages.Reason_REASON_DEADLINE)
	case code == "model_not_found":
		return client && (begun || status == http.StatusNotFound) && h.cluster.expects(messages.Reason_REASON_NOT_FOUND)
	case code == "model_not_ready":
		return server && status == http.StatusServiceUnavailable && says("this node is starting") && h.attempts > 0
	case code == "model_stopped":
		asleep := says("is at level standby") || says("is at level parked")
		return server && (begun || status == http.StatusServiceUnavailable) && asleep &&
			h.cluster.expects(messages.Reason_REASON_STOPPED)
	case says("were preempted"):
		return server && (begun || status == http.StatusServiceUnavailable) && !h.response.hasText() &&
			h.cluster.expects(messages.Reason_REASON_PREEMPTED)
	case status == http.StatusRequestTimeout:
		return client && h.pause >= bodyStall
	case says("shutting down"):
		return server && status == http.StatusServiceUnavailable && h.node.serving.isStopping()
	case says("quarantine"), says("device lost"):
		scarce := h.cluster.scarceDevices()
		if says("short of memory") { // the other devices work, and have no room
			scarce = slices.ContainsFunc(h.cluster.result.Faults, losesDevice)
		}
		return server && (begun || status == http.StatusServiceUnavailable) && scarce
	case says("no GPU for a replica") && !says("short of memory"):
		return server && (begun || status == http.StatusServiceUnavailable) && h.cluster.scarceNodes()
	case says("differ"), says("were replaced"):
		return server && h.cluster.expects(messages.Reason_REASON_WEIGHTS_DIFFER)
	case says("could not be loaded"):
		return server && h.cluster.expects(messages.Reason_REASON_LOAD_FAILED)
	case says("failed repeatedly") && says("hung"): // as a request does that makes its steps hang
		return server && (begun || status == http.StatusInternalServerError) && h.cluster.hangs() > 1
	case says("failed repeatedly") && says("is stopping or restarting"):
		return server && (begun || status == http.StatusInternalServerError) && h.cluster.restarts() >= manyRestarts
	case says("the gateway failed"), says("crashed repeatedly"):
		return false
	case says("engine"), says("exited twice"):
		return server && (begun || status == http.StatusInternalServerError)
	}
	return server && (begun || status == http.StatusServiceUnavailable) && says("memory")
}

// expected has the reasons for which a call may be refused if there are faults of a kind. The empty
// kind stands for all kinds.
var expected = map[FaultKind][]messages.Reason{
	"": {
		messages.Reason_REASON_QUEUE_FULL,
		messages.Reason_REASON_ENGINE_FAILED,
		messages.Reason_REASON_NO_MEMORY,
	},
	Delete:        {messages.Reason_REASON_NOT_FOUND},
	DeleteWeights: {messages.Reason_REASON_NOT_FOUND},
	DeleteAdapter: {messages.Reason_REASON_NOT_FOUND},
	BreakFiles:    {messages.Reason_REASON_LOAD_FAILED},
	FailLoads:     {messages.Reason_REASON_LOAD_FAILED},
	LoseFolder:    {messages.Reason_REASON_LOAD_FAILED},
	DamageLoads:   {messages.Reason_REASON_LOAD_FAILED},
	Redeploy:      {messages.Reason_REASON_WEIGHTS_DIFFER},
	HangStep:      {messages.Reason_REASON_DEADLINE},
	StickStep:     {messages.Reason_REASON_DEADLINE},
	HangReset:     {messages.Reason_REASON_DEADLINE},
	HangLoad:      {messages.Reason_REASON_DEADLINE},
	HangCapture:   {messages.Reason_REASON_DEADLINE},
	SlowDevice:    {messages.Reason_REASON_DEADLINE},
	HoldActor:     {messages.Reason_REASON_DEADLINE},
	Standby:       {messages.Reason_REASON_STOPPED},
	Switch:        {messages.Reason_REASON_STOPPED},
	Park:          {messages.Reason_REASON_STOPPED},
	Preempt:       {messages.Reason_REASON_PREEMPTED, messages.Reason_REASON_DEADLINE},
}

// manyRestarts is how often the replicas of a request may be restarted before it fails, if it gets no token.
const manyRestarts = 8

// restarts returns the number of restarts of replicas by an operator.
func (c *cluster) restarts() (n int) {
	for _, f := range c.result.Faults {
		if f.Kind == Restart {
			n++
		}
	}
	return n
}

// hangs returns the number of faults that make a step hang.
func (c *cluster) hangs() (n int) {
	for _, f := range c.result.Faults {
		if f.Kind == HangStep || f.Kind == StickStep || f.Kind == HangReset {
			n++
		}
	}
	return n
}

// expects reports whether a call may be refused for a reason.
func (c *cluster) expects(reason messages.Reason) bool {
	if slices.Contains(expected[""], reason) {
		return true
	}
	switch {
	case reason == messages.Reason_REASON_QUARANTINED && c.scarceDevices(),
		reason == messages.Reason_REASON_DEADLINE && (c.checks.cooling || c.Crowd > 0 || c.scarceDevices()):
		return true
	}
	return slices.ContainsFunc(c.result.Faults, func(f Fault) bool {
		return slices.Contains(expected[f.Kind], reason)
	})
}
