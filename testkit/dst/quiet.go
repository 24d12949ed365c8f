package dst

import (
	"strings"
	"time"
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
		return bounds{20 * time.Second, 500 * time.Millisecond, 1.1}
	default:
		return bounds{3 * time.Second, 200 * time.Millisecond, 1}
	}
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
		if each := call.last.Sub(call.first) / time.Duration(len(call.want)); each > b.token {
			c.fail("%s took %v for each token", call.ID, each)
		}
		if refused, _ := call.Result(); refused != nil {
			c.fail("%s was refused without a fault: %s", call.ID, refused.GetDetail())
		}
	}
	for _, h := range c.clients {
		tokens += h.most
		if strings.HasPrefix(h.refused, "5") && h.timeout == 0 {
			c.fail("%s was refused without a fault: %s", h.id, h.refused)
		}
	}
	if part := float64(c.checks.computed) / float64(tokens); part > b.computed {
		c.fail("%d tokens were computed for %d of prompts and outputs", c.checks.computed, tokens)
	}
}
