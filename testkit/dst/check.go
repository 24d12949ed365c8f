package dst

import (
	"fmt"
	"strings"
	"time"

	"troupe/messages"
)

// checkLivelock checks that time has passed until now.
func (c *cluster) checkLivelock() {
	if c.world.livelock != nil {
		c.fail("after %v, %d tasks have run without time passing, the last:\n%s",
			time.Since(c.world.trace.began), maxBusy, strings.Join(c.world.livelock, "\n"))
	}
}

// checkElastic checks that the planner has kept the numbers of replicas within their bounds.
func (c *cluster) checkElastic() {
	for _, m := range c.models {
		if n := c.operator.replicas(m.name); c.Elastic && !m.sleeps && (n < 1 || n > maxElastic) {
			c.fail("%d replicas of %s are wanted, of 1 to %d", n, m.name, maxElastic)
		}
	}
}

// check checks the properties that must hold at the end.
func (c *cluster) check() {
	c.checkClients()
	for _, call := range c.calls {
		refused, wrong := call.Result()
		for _, w := range wrong {
			c.fail("%s: %s", call.ID, w)
		}
		switch {
		case call.void() || call.cancelled:
			c.result.Void++
			continue
		case !call.Ended():
			c.fail(
				"%s on %s has not ended: %d of %d tokens",
				call.ID,
				call.node,
				len(call.Output()),
				len(call.want),
			)
		case refused != nil:
			reason := strings.TrimPrefix(refused.GetReason().String(), "REASON_")
			c.result.Refused[reason]++
			load := refused.GetReason() == messages.Reason_REASON_LOAD_FAILED && c.loadExplained(call)
			late := c.Calm && c.tooLate(call, refused)
			if !load && !late && !c.expects(refused.GetReason()) {
				c.fail("%s on %s was refused: %s: %s", call.ID, call.node, reason, refused.GetDetail())
			}
			parked := strings.Contains(refused.GetDetail(), "level parked") // no replica is left that could go on
			if refused.GetReason() == messages.Reason_REASON_PREEMPTED && len(call.Output()) > 0 {
				c.fail("%s on %s was refused after %d tokens: %s", call.ID, call.node, len(call.Output()),
					refused.GetDetail())
			}
			begun := len(call.Output()) > 0 || c.checks.messages.begun[call.ID] != ""
			if refused.GetReason() == messages.Reason_REASON_STOPPED && begun && !parked {
				c.fail("%s on %s was refused after it had begun, with %d tokens: %s", call.ID, call.node,
					len(call.Output()), refused.GetDetail())
			}
		default:
			c.result.Served++
		}
		c.checkDeadline(call)
		c.checkRevision(call)
	}
}

// checkRevision checks that the output of a call is that of the revision that its last replica has named.
func (c *cluster) checkRevision(call *Call) {
	path := modelPath(c.indexOf(call.Sequence.GetModel()), call.files)
	_, computed := digestsOf(path)
	if named := c.checks.messages.begun[call.ID]; named != computed && len(call.Output()) > 0 {
		c.fail("%s has the output of %s, revision %s, but its replica named revision %s", call.ID, path, computed,
			named)
	}
}

func (c *cluster) fail(format string, args ...any) {
	c.result.Failures = append(c.result.Failures, fmt.Sprintf(format, args...))
}
