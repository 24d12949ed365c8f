package node_test

import (
	"strings"
	"testing"

	"troupe/messages"
	"troupe/node"
)

// TestCriticalIsNotPreempted checks that no replica of a critical deployment is preempted, not even
// with force, and that its requests get a class of requests.
func TestCriticalIsNotPreempted(t *testing.T) {
	n := start(t, func(c *node.Config) {
		c.Deployments[0].Priority = messages.Priority_PRIORITY_CRITICAL.Enum()
	})
	conn := connect(t, n)
	refused := refusalOf(t, request(t, conn, "troupe.v1.replicas.preempt", `{"name": "kjv-0", "force": true}`))
	if refused.GetReason() != messages.Reason_REASON_FORBIDDEN || !strings.Contains(refused.GetError(), "critical") {
		t.Errorf("%v", refused)
	}
	completion := map[string]any{"model": "kjv", "prompt": "x", "max_tokens": 1}
	if status, body := post(t, n, "/v1/completions", completion); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	completion["priority"] = "critical"
	status, body := post(t, n, "/v1/completions", completion)
	if status != 400 || !strings.Contains(string(body), "interactive") {
		t.Errorf("a request with the class critical: %d %s", status, body)
	}
}
