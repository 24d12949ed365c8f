package dst

import (
	"strings"
	"time"

	"troupe/messages"
)

// A calm run has no faults, so its requests are served at full speed and nothing is computed twice.
//
// A step takes 25 ms, and 1 ms for each of at most 48 tokens. A message between nodes takes up to
// 5 ms, and a request needs four before its first step. If there are few requests, they only wait for
// an adapter, and for the turn of the other model. Long ones fill the queues, so that the last wait for
// those before them.
type bounds struct {
	first, token time.Duration // until the first token, and for each further one
	computed     float64       // computed tokens, as a part of all tokens of prompts and outputs
}

func (c *cluster) bounds() bounds {
	switch {
	case len(c.result.Faults) > 0:
		return bounds{30 * time.Second, time.Second, 1.2}
	case c.Busy:
		return bounds{22 * time.Second, 500 * time.Millisecond, 1.1}
	default:
		return bounds{3 * time.Second, 200 * time.Millisecond, 1}
	}
}

// tokenOf returns the bound for each further token of a request. The steps of class Batch use what
// the others leave: as long as the other replica has requests of a higher class, each waits for a turn.
func (b bounds) tokenOf(class messages.PriorityClass) time.Duration {
	if class == messages.PriorityClass_PRIORITY_CLASS_BATCH {
		return max(b.token, turnWithin)
	}
	return b.token
}

// checkQuiet checks a calm run.
func (c *cluster) checkQuiet() {
	if !c.Calm {
		return
	}
	b, tokens := c.bounds(), 0
	for _, call := range c.calls {
		tokens += len(call.Sequence.GetPrompt()) + len(call.want)
		if call.cancelled {
			continue
		}
		if wait := call.first.Sub(call.opened); wait > b.first {
			c.fail("%s waited for %v for its first token", call.ID, wait)
		}
		// One that is preempted waits like one that arrives.
		waits := time.Duration(c.checks.preempted[call.ID]) * b.first
		each := (call.last.Sub(call.first) - waits) / time.Duration(len(call.want))
		if class := call.Sequence.GetPriority(); each > b.tokenOf(class) {
			c.fail("%s of %s took %v for each token, and %v to wait after preemptions", call.ID, class, each, waits)
		}
		if refused, _ := call.Result(); refused != nil && !c.overloaded(call, refused) && !c.tooLate(call, refused) {
			c.fail("%s was refused without a fault: %s", call.ID, refused.GetDetail())
		}
	}
	for _, h := range c.clients {
		tokens += h.most
		if strings.HasPrefix(h.refused, "5") && h.timeout == 0 {
			c.fail("%s was refused without a fault: %s", h.id, h.refused)
		}
	}
	again := 0 // tokens of blocks that were not full when their sequences were preempted
	for _, times := range c.checks.preempted {
		again += times * (blockTokens - 1)
	}
	if part := float64(c.checks.computed-again) / float64(tokens); part > b.computed {
		c.fail("%d tokens were computed for %d of prompts and outputs, and %d after preemptions", c.checks.computed,
			tokens, again)
	}
}

// tooLate reports whether a call was refused because its time was up, although it waited no longer than the
// bounds allow.
func (c *cluster) tooLate(call *Call, why *messages.Refused) bool {
	b, waits := c.bounds(), time.Duration(1+c.checks.preempted[call.ID])
	longest := waits*b.first + time.Duration(len(call.want))*b.tokenOf(call.Sequence.GetPriority())
	return why.GetReason() == messages.Reason_REASON_DEADLINE &&
		call.opened.Add(longest).After(call.Sequence.GetDeadline().AsTime())
}

// overloaded reports whether a call was refused because the replicas of its model were full. Those that
// drain keep what they have.
func (c *cluster) overloaded(call *Call, why *messages.Refused) bool {
	if why.GetReason() != messages.Reason_REASON_QUEUE_FULL {
		return false
	}
	model, at, open := call.Sequence.GetModel(), call.endedAt(), 0
	for _, o := range c.calls {
		if o != call && o.Sequence.GetModel() == model && !o.opened.IsZero() && !o.opened.After(at) &&
			!o.endedAt().Before(at) {
			open++
		}
	}
	for _, h := range c.clients {
		if s := h.connection; h.model == model && s != nil && !s.began.IsZero() && !s.began.After(at) &&
			(s.ended.IsZero() || !s.ended.Before(at)) {
			open += len(h.want)
		}
	}
	replicas := uint32(1) // while others are replaced
	if len(c.result.Faults) == 0 {
		replicas = modelOf(model).replicas
	}
	return open >= int(replicas*(maxSequences+maxWaiting))
}
